{{- /* Objects are named as manifests/ names them, whatever the release is called: one can be changed for the other. */}}

{{- /* Of an object that has no namespace: of those names there is one in the cluster. */}}
{{- define "volume-warden.clusterName" -}}
{{- if ne .Release.Namespace "volume-warden" }}{{ .Release.Namespace }}-{{ end }}volume-warden
{{- end }}

{{- define "volume-warden.labels" -}}
{{- $ours := dict "app.kubernetes.io/name" "volume-warden" "app.kubernetes.io/part-of" "volume-warden"
      "app.kubernetes.io/instance" .Release.Name "app.kubernetes.io/managed-by" .Release.Service
      "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_") }}
{{- merge $ours .Values.commonLabels | toYaml }}
{{- end }}

{{- /* Without what changes with the chart: pods would be replaced for a label. */}}
{{- define "volume-warden.podLabels" -}}
{{- $ours := dict "app.kubernetes.io/name" "volume-warden" "app.kubernetes.io/part-of" "volume-warden" }}
{{- merge $ours .Values.commonLabels | toYaml }}
{{- end }}

{{- define "volume-warden.image" -}}
{{- with .Values.image }}
{{- .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- define "volume-warden.priorityClass" -}}
{{- if .Values.priorityClass.create }}{{ include "volume-warden.clusterName" . }}{{ else }}{{ .Values.priorityClass.name }}{{ end }}
{{- end }}

{{- /* Without webhooks there is nothing to serve, and so no certificate. */}}
{{- define "volume-warden.tlsMode" -}}
{{- if include "volume-warden.rules.tls-publish" . | trim }}{{ .Values.tls.mode }}{{ end }}
{{- end }}
