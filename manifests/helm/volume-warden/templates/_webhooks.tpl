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

{{- /* The requirement that a namespace has not opted out, in a JSON array. */}}
{{- define "volume-warden.isIncluded" -}}
{{- list (dict "key" "volume-warden.dev/exclude" "operator" "NotIn" "values" (list "true")) | toJson }}
{{- end }}

{{- /* The selector of a webhook for workloads: without exempt namespaces, so that their pods do not wait for Volume Warden. webhooks.namespaceSelector can only exclude more, because all requirements must hold. */}}
{{- define "volume-warden.workloadSelector" -}}
{{- $names := append .Values.webhooks.exemptNamespaces .Release.Namespace | uniq }}
{{- $system := dict "key" "kubernetes.io/metadata.name" "operator" "NotIn" "values" $names }}
{{- include "volume-warden.selector" (list . (prepend (include "volume-warden.isIncluded" . | fromJsonArray) $system)) }}
{{- end }}

{{- /* The selector of a webhook for claims. The webhooks that remove a marker have none, because a marker decides whether a claim is deleted. */}}
{{- define "volume-warden.claimSelector" -}}
{{- include "volume-warden.selector" (list . (include "volume-warden.isIncluded" . | fromJsonArray)) }}
{{- end }}

{{- /* webhooks.namespaceSelector and more requirements. Parameters: root, requirements. */}}
{{- define "volume-warden.selector" -}}
{{- $selector := (index . 0).Values.webhooks.namespaceSelector -}}
namespaceSelector:
  {{- with $selector.matchLabels }}
  matchLabels:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  matchExpressions:
    {{- concat (index . 1) ($selector.matchExpressions | default list) | toYaml | nindent 2 }}
{{- end }}
