{{- /* The program's defaults of the values that are flags. A value that equals its default is left out, as in manifests/. */}}
{{- define "volume-warden.defaults" -}}
pvcProtection:
  finishedPods: hold
  unusedCondition: auto
pvcProvisioner:
  strictTemplates: false
  templateFields: []
  allowedStorageClasses: []
  authorizeRequester: "off"
  orphanGrace: 1m
  blockOwnerDeletion: false
pvReleaser:
  disableAutomaticAssociation: false
  releaseMode: full
  releaseScope: ""
  legacyLabel: true
  associateByStorageClass: false
pvcTrash:
  trashMaxPurges: 100
  trashMaxBytes: unlimited
pvcExpiry:
  expiryMaxDeletions: 20
namespaceGc:
  gcProtect: [default, kube-*]
  gcGrace: 1m
  gcMaxDeletions: 100
  gcConfirmAfter: 10s
  namespaceDeleteWorkers: 5
  namespaceDeleteGcDelay: 20s
  namespaceDeleteGcInterval: 1h
  storageosRefreshInterval: 1m
  storageosRetryInterval: 5s
{{- end }}

{{- /* The flags of a component's section with their values, as JSON, without those that have the default. Parameters: root, key. */}}
{{- define "volume-warden.changed" -}}
{{- $section := get (index . 0).Values (index . 1) }}
{{- $changed := dict }}
{{- range $key, $default := get (include "volume-warden.defaults" . | fromYaml) (index . 1) | default dict }}
{{- if hasKey $section $key }}
{{- $word := include "volume-warden.word" (get $section $key) }}
{{- if ne $word (include "volume-warden.word" $default) }}{{ $changed = set $changed (kebabcase $key) $word }}{{ end }}
{{- end }}
{{- end }}
{{- toJson $changed }}
{{- end }}

{{- /* --components, then every changed value of a component as a flag, except those of namespace-gc. */}}
{{- define "volume-warden.arguments" -}}
- run
{{- range $name := include "volume-warden.components" . | fromJsonArray }}
- --components={{ $name }}
{{- if ne $name "namespace-gc" }}
{{- range $flag, $word := include "volume-warden.changed" (list $ (camelcase $name | untitle)) | fromJson }}
- {{ printf "--%s=%s" $flag $word | quote }}
{{- end }}
{{- /* A path may contain commas. */}}
{{- range $path := (get $.Values (camelcase $name | untitle)).expiryReferences }}
- {{ printf "--expiry-references=%s" $path | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- if has (include "volume-warden.tlsMode" .) (list "certManager" "secret") }}
- --tls-cert-file=/etc/volume-warden/tls/tls.crt
- --tls-private-key-file=/etc/volume-warden/tls/tls.key
{{- end }}
{{- if .Values.metricsAuthorization.enabled }}
- --metrics-authorization
{{- end }}
{{- $fullname := include "volume-warden.fullname" . }}
{{- if ne $fullname "volume-warden" }}
- --service-name={{ $fullname }}
- --tls-secret-name={{ $fullname }}-tls
- --webhook-path-secret={{ $fullname }}-serving
{{- end }}
{{- if ne (int .Values.webhooks.port) 9443 }}
- --webhook-bind-address=[::]:{{ int .Values.webhooks.port }}
{{- end }}
{{- $exempt := .Values.webhooks.exemptNamespaces | join "," }}
{{- if ne $exempt "kube-system" }}
- --exempt-namespaces={{ $exempt }}
{{- end }}
{{- if .Values.dryRun }}
- --dry-run
{{- end }}
{{- if include "volume-warden.enabled" (list . "namespaceGc") }}
{{- range .Values.extraArgs }}
{{- if regexMatch "^--(gc-|api-|storageos-|storage-backend|directory-root|insecure-http|namespace-delete-workers|system-namespace)" . }}
{{- fail (printf "extraArgs: %s would apply to the server, but not to `volume-warden gc` in its pod; set it in namespaceGc, or as a variable VOLUME_WARDEN_... in extraEnv" .) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and (include "volume-warden.enabled" (list . "pvcProvisioner")) (ne (toString .Values.pvcProvisioner.authorizeRequester) "off") .Values.webhooks.namespaceSelector }}
{{- fail "webhooks.namespaceSelector: with pvcProvisioner.authorizeRequester, claims are created only with their pod, so never in the namespaces that it excludes; name these namespaces in webhooks.exemptNamespaces" }}
{{- end }}
{{- range .Values.extraArgs }}
{{- if regexMatch "^--probe-bind-address" . }}
{{- fail "extraArgs: the probes of the pod would not use --probe-bind-address; set the variable VOLUME_WARDEN_PROBE_BIND_ADDRESS in extraEnv" }}
{{- end }}
{{- if and (regexMatch "^--leader-elect-identity" .) (not (contains "$(" .)) }}
{{- fail "extraArgs: with the same --leader-elect-identity, all replicas would lead; use a variable of extraEnv that has the name of the pod, as $(POD_NAME)" }}
{{- end }}
{{- end }}
{{- with .Values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Numbers in values files are floating point; large ones would be printed with an exponent. */}}
{{- define "volume-warden.word" -}}
{{- if kindIs "slice" . }}{{ join "," . }}{{ else if kindIs "float64" . }}{{ int64 . }}{{ else }}{{ . }}{{ end }}
{{- end }}

{{- /* The values of namespace-gc, as variables: unlike arguments of `run`, they apply to `volume-warden gc` by `kubectl exec`. */}}
{{- define "volume-warden.collecting" -}}
env:
{{- if include "volume-warden.enabled" (list . "namespaceGc") }}
{{- range $flag, $word := include "volume-warden.changed" (list . "namespaceGc") | fromJson }}
- name: VOLUME_WARDEN_{{ $flag | upper | replace "-" "_" }}
  value: {{ $word | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- /* What the kustomize components namespace-gc-seen and namespace-gc-directory say. */}}
{{- define "volume-warden.gcScope" -}}
{{- if include "volume-warden.enabled" (list . "namespaceGc") }}
{{- with .Values.namespaceGc }}
{{- if .gcScope }}{{ .gcScope }}{{ else if eq (default "" .storageBackend) "directory" }}seen{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The port of the storage backend's API; empty without one. The endpoint is read as the program
       does: the scheme is optional and does not change the default port, 5705, and an IPv6 address
       without brackets has no port. */}}
{{- define "volume-warden.storagePort" -}}
{{- $gc := .Values.namespaceGc }}
{{- if and (include "volume-warden.enabled" (list . "namespaceGc")) (eq (default "" $gc.storageBackend) "storageos") }}
{{- $host := regexReplaceAll "^.*?://" (trim $gc.storageos.endpoint) "" | splitList "/" | first }}
{{- regexFind "^([^:]*|\\[.*\\]):[0-9]+$" $host | regexFind "[0-9]+$" | default "5705" }}
{{- end }}
{{- end }}

{{- /* A storage backend's part of the pod, as one object: env, volumeMounts, volumes. */}}
{{- define "volume-warden.storage" -}}
{{- $gc := .Values.namespaceGc }}
{{- $scope := include "volume-warden.gcScope" . }}
{{- if and (include "volume-warden.enabled" (list . "namespaceGc")) (eq (default "" $gc.storageBackend) "storageos") }}
env:
{{- with $scope }}
- name: VOLUME_WARDEN_GC_SCOPE
  value: {{ . }}
{{- end }}
- name: VOLUME_WARDEN_STORAGE_BACKEND
  value: storageos
- name: VOLUME_WARDEN_STORAGEOS_ENDPOINT
  value: {{ $gc.storageos.endpoint | quote }}
{{- if $gc.storageos.insecureHttp }}
- name: VOLUME_WARDEN_INSECURE_HTTP
  value: "true"
{{- else if $gc.storageos.caKey }}
- name: VOLUME_WARDEN_STORAGEOS_CA_FILE
  value: /etc/storageos/secrets/api/{{ $gc.storageos.caKey }}
{{- end }}
volumeMounts:
- name: storageos-api
  mountPath: /etc/storageos/secrets/api
  readOnly: true
volumes:
- name: storageos-api
  secret:
    secretName: {{ $gc.storageos.secretName }}
    # Volume Warden starts without it, and reads it when it is there.
    optional: true
{{- else if and (include "volume-warden.enabled" (list . "namespaceGc")) (eq (default "" $gc.storageBackend) "directory") }}
env:
- name: VOLUME_WARDEN_STORAGE_BACKEND
  value: directory
- name: VOLUME_WARDEN_DIRECTORY_ROOT
  value: /var/lib/volume-warden/root
{{- with $scope }}
- name: VOLUME_WARDEN_GC_SCOPE
  value: {{ . }}
{{- end }}
volumeMounts:
- name: directory-root
  mountPath: /var/lib/volume-warden/root
volumes:
- name: directory-root
  persistentVolumeClaim:
    claimName: {{ $gc.directory.claimName }}
{{- else if $scope }}
env:
- name: VOLUME_WARDEN_GC_SCOPE
  value: {{ $scope }}
{{- else }}
{}
{{- end }}
{{- end }}

{{- /* The part of the pod that restricts the clients of the webhooks, in the same shape. */}}
{{- define "volume-warden.clientCA" -}}
{{- $clients := .Values.tls.clientCA }}
{{- if and $clients.configMapName (include "volume-warden.hasWebhooks" .) }}
env:
- name: VOLUME_WARDEN_CLIENT_CA_FILE
  value: /etc/volume-warden/client-ca/ca.crt
{{- with $clients.allowedNames }}
- name: VOLUME_WARDEN_CLIENT_ALLOWED_NAME
  value: {{ join "," . | quote }}
{{- end }}
volumeMounts:
- name: client-ca
  mountPath: /etc/volume-warden/client-ca
  readOnly: true
volumes:
- name: client-ca
  configMap:
    name: {{ $clients.configMapName }}
{{- else }}
{}
{{- end }}
{{- end }}

{{- /* The certificate's part of the pod, in the same shape. */}}
{{- define "volume-warden.tls" -}}
{{- $mode := include "volume-warden.tlsMode" . }}
{{- if not (has $mode (list "certManager" "secret")) }}
{}
{{- else }}
volumeMounts:
- name: tls
  mountPath: /etc/volume-warden/tls
  readOnly: true
volumes:
- name: tls
  secret:
    secretName: {{ eq $mode "secret" | ternary .Values.tls.secret.name (print (include "volume-warden.fullname" .) "-tls") }}
{{- end }}
{{- end }}
