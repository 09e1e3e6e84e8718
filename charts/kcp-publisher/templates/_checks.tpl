{{/* Refuses combinations of values that the program would refuse at its start. */}}
{{- define "kcp-publisher.checks" -}}
{{- if gt (int .Values.shards) 1 }}
{{- if .Values.git.url }}{{ fail "shards: more than 1 cannot be combined with git.url, because a commit is applied by one replica; remove git.url or set shards to 1" }}{{ end }}
{{- if .Values.watchLabelSelector }}{{ fail "shards: more than 1 cannot be combined with watchLabelSelector; use one of them to divide the fleet" }}{{ end }}
{{- if or .Values.notifications.receiver.enabled .Values.notifications.agents.enabled }}{{ fail "shards: more than 1 cannot be combined with notifications.receiver.enabled or notifications.agents.enabled" }}{{ end }}
{{- if lt (int .Values.shards) (int .Values.replicas) }}{{ fail (printf "shards: %d is less than replicas (%d), so some replicas would have no shard; increase shards or decrease replicas" (int .Values.shards) (int .Values.replicas)) }}{{ end }}
{{- end }}
{{- if and .Values.git.url .Values.watchLabelSelector }}{{ fail "watchLabelSelector: cannot be combined with git.url, because a commit covers all Kymas" }}{{ end }}
{{- if and .Values.git.branch .Values.git.tag }}{{ fail "git.tag: cannot be combined with git.branch; set one of them" }}{{ end }}
{{- if and .Values.secretsNamespace (eq .Values.secretsNamespace .Release.Namespace) }}{{ fail (printf "secretsNamespace: %s is the namespace of this release, whose Secrets contain private keys; use a namespace of its own" .Values.secretsNamespace) }}{{ end }}
{{- end }}
