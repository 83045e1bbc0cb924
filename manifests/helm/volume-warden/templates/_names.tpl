{{- /* Objects have the names of manifests/, independent of the release name, so that chart and kustomize are interchangeable. */}}

{{- /* Name of an object without a namespace, unique in the cluster. */}}
{{- define "volume-warden.clusterName" -}}
{{- if ne .Release.Namespace "volume-warden" }}{{ .Release.Namespace }}-{{ end }}volume-warden
{{- end }}

{{- define "volume-warden.labels" -}}
{{- $own := dict "app.kubernetes.io/name" "volume-warden" "app.kubernetes.io/part-of" "volume-warden"
      "app.kubernetes.io/instance" .Release.Name "app.kubernetes.io/managed-by" .Release.Service
      "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_") }}
{{- merge $own .Values.commonLabels | toYaml }}
{{- end }}

{{- /* Without labels that change with the chart version: they would replace the pods. */}}
{{- define "volume-warden.podLabels" -}}
{{- $own := dict "app.kubernetes.io/name" "volume-warden" "app.kubernetes.io/part-of" "volume-warden" }}
{{- merge $own .Values.commonLabels | toYaml }}
{{- end }}

{{- define "volume-warden.image" -}}
{{- with .Values.image }}
{{- .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- define "volume-warden.priorityClass" -}}
{{- if .Values.priorityClass.create }}{{ include "volume-warden.clusterName" . }}{{ else }}{{ .Values.priorityClass.name }}{{ end }}
{{- end }}

{{- /* Empty without webhooks, because no certificate is served then. */}}
{{- define "volume-warden.tlsMode" -}}
{{- if include "volume-warden.rules.tls-publish" . | trim }}{{ .Values.tls.mode }}{{ end }}
{{- end }}
