{{- /* Header of a webhook configuration. Parameters: root, name. */}}
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

{{- /* Parameter: root. Volume Warden publishes the path; tls.mode determines who publishes the caBundle. */}}
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
