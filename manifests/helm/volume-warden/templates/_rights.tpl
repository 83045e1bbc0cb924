{{- /* What every object without a namespace begins with; takes the root and what its name ends in. */}}
{{- define "volume-warden.clusterMetadata" -}}
{{- $root := index . 0 }}
metadata:
  name: {{ include "volume-warden.clusterName" $root }}{{ index . 1 }}
  labels:
    {{- include "volume-warden.labels" $root | nindent 4 }}
{{- end }}

{{- /* The rules' ClusterRole bound to the account; takes the root, what the name ends in, and the rules. */}}
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
  name: {{ $root.Values.serviceAccount.name }}
  namespace: {{ $root.Release.Namespace }}
{{- end }}

{{- /* What an object in the release's namespace begins with; takes the same. */}}
{{- define "volume-warden.metadata" -}}
{{- $root := index . 0 }}
metadata:
  name: volume-warden{{ index . 1 }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "volume-warden.labels" $root | nindent 4 }}
{{- end }}

{{- /* The rules' Role bound to the account, with rights in the release's namespace only; takes what its sister takes. */}}
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
  name: volume-warden{{ index . 1 }}
subjects:
- kind: ServiceAccount
  name: {{ $root.Values.serviceAccount.name }}
  namespace: {{ $root.Release.Namespace }}
{{- end }}
