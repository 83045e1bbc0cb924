{{- /* Header of a webhook configuration. Parameters: root, name. */}}
{{- define "volume-warden.webhookMetadata" -}}
{{- $root := index . 0 -}}
metadata:
  name: {{ index . 1 }}
  labels:
    {{- include "volume-warden.labels" $root | nindent 4 }}
  {{- if eq $root.Values.tls.mode "certManager" }}
  annotations:
    cert-manager.io/inject-ca-from: {{ $root.Release.Namespace }}/{{ include "volume-warden.fullname" $root }}
  {{- end }}
{{- end }}

{{- /* Parameter: root. Volume Warden publishes the path; tls.mode determines who publishes the caBundle. */}}
{{- define "volume-warden.clientConfig" -}}
clientConfig:
  service:
    name: {{ include "volume-warden.fullname" . }}
    namespace: {{ .Release.Namespace }}
    port: 443
  {{- if eq .Values.tls.mode "secret" }}
  {{- with .Values.tls.secret.ca }}
  caBundle: {{ b64enc . }}
  {{- end }}
  {{- end }}
{{- end }}

{{- /* The selector of a webhook for workloads: without system namespaces, so that their pods do not wait for Volume Warden. webhooks.namespaceSelector can only exclude more, because all requirements must hold. */}}
{{- define "volume-warden.workloadSelector" -}}
{{- $system := dict "key" "kubernetes.io/metadata.name" "operator" "NotIn" "values" (list "kube-system" .Release.Namespace) }}
{{- $selector := .Values.webhooks.namespaceSelector }}
namespaceSelector:
  {{- with $selector.matchLabels }}
  matchLabels:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  matchExpressions:
    {{- prepend ($selector.matchExpressions | default list) $system | toYaml | nindent 2 }}
{{- end }}

{{- /* The selector of a webhook for claims; empty by default. The webhooks that remove a marker have none, because a marker decides whether a claim is deleted. */}}
{{- define "volume-warden.claimSelector" -}}
{{- $selector := pick .Values.webhooks.namespaceSelector "matchLabels" "matchExpressions" }}
{{- range $key, $value := $selector }}{{ if not $value }}{{ $selector = omit $selector $key }}{{ end }}{{ end }}
{{- with $selector -}}
namespaceSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
