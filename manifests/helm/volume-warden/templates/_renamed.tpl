{{- /* Fails with the new name of every old key. The schema accepts old keys only for this message. */}}
{{- define "volume-warden.refuseOldKeys" -}}
{{- $flags := dict
      "orphanGraceSeconds" "orphanGrace, a duration"
      "apiRefreshInterval" "storageosRefreshInterval"
      "apiRetryInterval" "storageosRetryInterval" }}
{{- $sections := list "pvcProtection" "pvProtection" "pvcRetention" "pvcProvisioner" "pvReleaser" "pvcTrash" "pvcExpiry" "trashList" "namespaceGc" }}
{{- $refused := list }}
{{- range $name, $section := .Values.components }}
{{- $new := camelcase $name | untitle }}
{{- if not (has $new $sections) }}
{{- $refused = append $refused (printf "components.%s is unknown; the sections of the components are %s" $name (join ", " $sections)) }}
{{- else if not (kindIs "map" $section) }}
{{- $refused = append $refused (printf "components.%s is now %s" $name $new) }}
{{- else }}
{{- range $key, $value := $section }}
{{- $refused = append $refused (printf "components.%s.%s is now %s.%s" $name $key $new (get $flags $key | default $key)) }}
{{- end }}
{{- end }}
{{- end }}
{{- range $section := list "pvcProvisioner" "namespaceGc" }}
{{- range $key, $new := $flags }}
{{- if hasKey (get $.Values $section) $key }}
{{- $refused = append $refused (printf "%s.%s is now %s.%s" $section $key $section $new) }}
{{- end }}
{{- end }}
{{- end }}
{{- if hasKey .Values "replicas" }}
{{- $refused = append $refused "replicas is now replicaCount" }}
{{- end }}
{{- if $refused }}
{{- fail (join "; " $refused) }}
{{- end }}
{{- end }}
