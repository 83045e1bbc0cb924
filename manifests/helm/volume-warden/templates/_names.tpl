{{- /* By default objects have the names of manifests/, independent of the release name, so that chart and kustomize are interchangeable. */}}

{{- /* Label of the objects, and selector of the pods. */}}
{{- define "volume-warden.name" -}}
{{- .Values.nameOverride | default .Values.fullnameOverride | default "volume-warden" }}
{{- end }}

{{- /* Name of an object in the release's namespace. */}}
{{- define "volume-warden.fullname" -}}
{{- .Values.fullnameOverride | default (include "volume-warden.name" .) }}
{{- end }}

{{- define "volume-warden.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "volume-warden.fullname" .) }}
{{- end }}

{{- /* Name of an object without a namespace, unique in the cluster. */}}
{{- define "volume-warden.clusterName" -}}
{{- if ne .Release.Namespace "volume-warden" }}{{ .Release.Namespace }}-{{ end }}{{ include "volume-warden.fullname" . }}
{{- end }}

{{- define "volume-warden.labels" -}}
{{- $own := dict "app.kubernetes.io/name" (include "volume-warden.name" .) "app.kubernetes.io/part-of" "volume-warden"
      "app.kubernetes.io/instance" .Release.Name "app.kubernetes.io/managed-by" .Release.Service
      "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_") }}
{{- merge $own .Values.commonLabels | toYaml }}
{{- end }}

{{- /* Without labels that change with the chart version: they would replace the pods. */}}
{{- define "volume-warden.podLabels" -}}
{{- $own := dict "app.kubernetes.io/name" (include "volume-warden.name" .) "app.kubernetes.io/part-of" "volume-warden" }}
{{- merge $own .Values.podLabels .Values.commonLabels | toYaml }}
{{- end }}

{{- /* Whether the component of this section is installed: true, or empty. Parameters: root, section. */}}
{{- define "volume-warden.enabled" -}}
{{- $values := (index . 0).Values }}
{{- if (get $values (index . 1)).enabled }}
{{- if or (not $values.onlyProtection) (has (index . 1) (list "pvcProtection" "pvProtection" "pvcRetention")) }}true{{ end }}
{{- end }}
{{- end }}

{{- /* The enabled components, as a JSON array of the names that --components accepts. */}}
{{- define "volume-warden.components" -}}
{{- $enabled := list }}
{{- range $key := list "pvcProtection" "pvProtection" "pvcRetention" "pvcProvisioner" "pvReleaser" "pvcTrash" "namespaceGc" "pvcExpiry" "trashList" }}
{{- if include "volume-warden.enabled" (list $ $key) }}{{ $enabled = append $enabled (kebabcase $key) }}{{ end }}
{{- end }}
{{- toJson $enabled }}
{{- end }}

{{- define "volume-warden.image" -}}
{{- with .Values.image }}
{{- .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- define "volume-warden.priorityClass" -}}
{{- if .Values.priorityClass.create }}{{ include "volume-warden.clusterName" . }}{{ else }}{{ .Values.priorityClass.name }}{{ end }}
{{- end }}

{{- /* Empty if no component with webhooks is enabled. */}}
{{- define "volume-warden.hasWebhooks" -}}
{{- include "volume-warden.rules.tls-publish" . | trim }}
{{- end }}

{{- /* Empty if no certificate is served. */}}
{{- define "volume-warden.tlsMode" -}}
{{- if or .Values.metricsAuthorization.enabled (include "volume-warden.hasWebhooks" .) }}{{ .Values.tls.mode }}{{ end }}
{{- end }}
