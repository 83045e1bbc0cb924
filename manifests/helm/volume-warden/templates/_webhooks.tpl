{{- /* Of a webhook configuration; takes the root and the name. */}}
{{- define "volume-warden.webhookMetadata" -}}
{{- $root := index . 0 -}}
metadata:
  name: {{ index . 1 }}
  labels:
    {{- include "volume-warden.labels" $root | nindent 4 }}
  {{- if eq $root.Values.tls.mode "certManager" }}
  annotations:
    cert-manager.io/inject-ca-from: {{ $root.Release.Namespace }}/volume-warden
  {{- end }}
{{- end }}

{{- /* Takes the root. Volume Warden publishes the path; who publishes the caBundle depends on tls.mode. */}}
{{- define "volume-warden.clientConfig" -}}
clientConfig:
  service:
    name: volume-warden
    namespace: {{ .Release.Namespace }}
    port: 443
  {{- if eq .Values.tls.mode "secret" }}
  {{- with .Values.tls.secret.ca }}
  caBundle: {{ b64enc . }}
  {{- end }}
  {{- end }}
{{- end }}
