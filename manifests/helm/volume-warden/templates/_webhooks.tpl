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

{{- /* Takes the root and the path. Whose the caBundle is, is a matter of tls.mode. */}}
{{- define "volume-warden.clientConfig" -}}
{{- $root := index . 0 -}}
clientConfig:
  service:
    name: volume-warden
    namespace: {{ $root.Release.Namespace }}
    path: {{ index . 1 }}
    port: 443
  {{- if eq $root.Values.tls.mode "secret" }}
  {{- with $root.Values.tls.secret.ca }}
  caBundle: {{ b64enc . }}
  {{- end }}
  {{- end }}
{{- end }}
