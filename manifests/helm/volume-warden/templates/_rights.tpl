{{- /* Header of an object without a namespace. Parameters: root, name suffix. */}}
{{- define "volume-warden.clusterMetadata" -}}
{{- $root := index . 0 }}
metadata:
  name: {{ include "volume-warden.clusterName" $root }}{{ index . 1 }}
  labels:
    {{- include "volume-warden.labels" $root | nindent 4 }}
{{- end }}

{{- /* A ClusterRole with the rules, bound to the account. Parameters: root, name suffix, rules. */}}
{{- define "volume-warden.clusterRole" -}}
{{- $root := index . 0 }}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
{{ include "volume-warden.clusterMetadata" . }}
rules:
{{- index . 2 | nindent 0 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
{{ include "volume-warden.clusterMetadata" . }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ include "volume-warden.clusterName" $root }}{{ index . 1 }}
subjects:
- kind: ServiceAccount
  name: {{ include "volume-warden.serviceAccount" $root }}
  namespace: {{ $root.Release.Namespace }}
{{- end }}

{{- /* Header of an object in the release's namespace. Same parameters. */}}
{{- define "volume-warden.metadata" -}}
{{- $root := index . 0 }}
metadata:
  name: {{ include "volume-warden.fullname" $root }}{{ index . 1 }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "volume-warden.labels" $root | nindent 4 }}
{{- end }}

{{- /* A Role with the rules in the release's namespace, bound to the account. Same parameters. */}}
{{- define "volume-warden.role" -}}
{{- $root := index . 0 }}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
{{ include "volume-warden.metadata" . }}
rules:
{{- index . 2 | nindent 0 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
{{ include "volume-warden.metadata" . }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ include "volume-warden.fullname" $root }}{{ index . 1 }}
subjects:
- kind: ServiceAccount
  name: {{ include "volume-warden.serviceAccount" $root }}
  namespace: {{ $root.Release.Namespace }}
{{- end }}
