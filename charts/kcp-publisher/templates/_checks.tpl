{{/* Refuses combinations of values that cannot work. */}}
{{- define "kcp-publisher.checks" -}}
{{- $fullname := include "kcp-publisher.fullname" . }}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $fullname) }}{{ fail (printf "fullnameOverride: the name %s is not valid for Services; set a name that starts with a letter and contains only lowercase letters, digits and dashes" $fullname) }}{{ end }}
{{- if gt (int .Values.shards) 1 }}
{{- if lt (int .Values.shards) (int .Values.replicas) }}{{ fail (printf "shards: %d is less than replicas (%d), so some replicas would have no shard; increase shards or decrease replicas" (int .Values.shards) (int .Values.replicas)) }}{{ end }}
{{- end }}
{{- if and .Values.git.url .Values.watchLabelSelector }}{{ fail "watchLabelSelector: cannot be combined with git.url, because a commit covers all Kymas" }}{{ end }}
{{- if and .Values.git.branch .Values.git.tag }}{{ fail "git.tag: cannot be combined with git.branch; set one of them" }}{{ end }}
{{- if and .Values.secretsNamespace (eq .Values.secretsNamespace .Release.Namespace) }}{{ fail (printf "secretsNamespace: %s is the namespace of this release, whose Secrets contain private keys; use another namespace" .Values.secretsNamespace) }}{{ end }}
{{- if .Values.signaturePolicy }}
{{- $own := .Values.signatureKeysNamespace }}
{{- if not $own }}{{ fail (printf "signatureKeysNamespace: is required with signaturePolicy, because the publisher can read all Secrets there; move the public keys from %s, whose Secrets contain private keys, to another namespace" .Release.Namespace) }}{{ end }}
{{- if eq $own .Release.Namespace }}{{ fail (printf "signatureKeysNamespace: %s is the namespace of this release, whose Secrets contain private keys; use another namespace" $own) }}{{ end }}
{{- if eq $own .Values.secretsNamespace }}{{ fail (printf "signatureKeysNamespace: %s is also secretsNamespace, whose authors could add public keys; use another namespace" $own) }}{{ end }}
{{- end }}
{{- if not .Values.git.url }}{{ range $name := list "branch" "tag" "path" "pollInterval" "credentialsSecretName" "signersConfigMapName" }}{{ if get $.Values.git $name }}{{ fail (printf "git.%s: has no effect without git.url" $name) }}{{ end }}{{ end }}{{ end }}
{{- if and (regexMatch "^(ssh://|[^/:]+@[^/:]+:)" .Values.git.url) (not .Values.git.credentialsSecretName) }}{{ fail "git.credentialsSecretName: is required, because git.url uses SSH; the Secret contains identity and known_hosts" }}{{ end }}
{{- if and .Values.componentCache.existingClaim (not .Values.componentCache.enabled) }}{{ fail "componentCache.existingClaim: has no effect, because componentCache.enabled is false" }}{{ end }}
{{- if and .Values.serviceAccount.annotations (not .Values.serviceAccount.create) }}{{ fail "serviceAccount.annotations: has no effect, because serviceAccount.create is false" }}{{ end }}
{{- if not .Values.rbac.create }}{{ range $name := list "foreignFinalizers" "promotions" }}{{ if get $.Values.rbac $name }}{{ fail (printf "rbac.%s: has no effect, because rbac.create is false" $name) }}{{ end }}{{ end }}{{ end }}
{{- if and .Values.tokenService.generationsConfigMapName (not (or .Values.tokenService.enabled .Values.notifications.agents.enabled)) }}{{ fail "tokenService.generationsConfigMapName: has no effect without tokenService.enabled or notifications.agents.enabled" }}{{ end }}
{{- with .Values.events }}
{{- if not .url }}{{ range $name := list "severity" "reasons" "headersSecretName" "caConfigMapName" }}{{ if get $.Values.events $name }}{{ fail (printf "events.%s: has no effect without events.url" $name) }}{{ end }}{{ end }}{{ end }}
{{- if and .headersSecretName (not (hasPrefix "https://" .url)) }}{{ fail "events.headersSecretName: headers are sent over https only; change events.url" }}{{ end }}
{{- end }}
{{- include "kcp-publisher.uiChecks" . }}
{{- include "kcp-publisher.podChecks" . }}
{{- end }}

{{- define "kcp-publisher.uiChecks" -}}
{{- if not .Values.ui.enabled }}{{ range $name := list "ingress" "httpRoute" "registry" }}{{ if (get $.Values.ui $name).enabled }}{{ fail (printf "ui.%s.enabled: has no effect without ui.enabled" $name) }}{{ end }}{{ end }}{{ end }}
{{- with .Values.ui.registry.configSecretName }}
{{- if not $.Values.ui.registry.enabled }}{{ fail "ui.registry.configSecretName: has no effect without ui.registry.enabled" }}{{ end }}
{{- if eq . $.Values.registry.configSecretName }}{{ fail (printf "ui.registry.configSecretName: %s contains the publisher's credentials, which can change bundles; create credentials that can only read bundles and reports" .) }}{{ end }}
{{- end }}
{{- if .Values.ui.enabled }}
{{- with .Values.ui }}
{{- if and (not .tokens) (not .oidc.issuerURL) }}{{ fail "ui.tokens: false requires ui.oidc.issuerURL, because users could not sign in otherwise" }}{{ end }}
{{- if and .tokenAudience (not .tokens) }}{{ fail "ui.tokenAudience: has no effect, because ui.tokens is false" }}{{ end }}
{{- if and .oidc.issuerURL (not .oidc.clientID) }}{{ fail "ui.oidc.clientID: is required with ui.oidc.issuerURL" }}{{ end }}
{{- if not .oidc.issuerURL }}{{ range $name, $value := .oidc }}{{ if and $value (ne $name "issuerURL") }}{{ fail (printf "ui.oidc.%s: has no effect without ui.oidc.issuerURL" $name) }}{{ end }}{{ end }}{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "kcp-publisher.podChecks" -}}
{{- range $name, $value := .Values.podLabels }}
{{- if has $name (list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "helm.sh/chart") }}{{ fail (printf "podLabels: %s is a label of the chart; choose another name" $name) }}{{ end }}
{{- end }}
{{- $volumes := list }}
{{- range .Values.extraVolumes }}
{{- if has .name (list "keys" "tmp" "cache" "registry" "registry-ca" "git" "git-signers" "config" "receiver" "generations" "notifications-tls" "events" "events-ca") }}{{ fail (printf "extraVolumes: %s is a volume of the chart; choose another name" .name) }}{{ end }}
{{- if has .name $volumes }}{{ fail (printf "extraVolumes: duplicate %s" .name) }}{{ end }}
{{- $volumes = append $volumes .name }}
{{- end }}
{{- range .Values.extraVolumeMounts }}
{{- if not (has .name $volumes) }}{{ fail (printf "extraVolumeMounts: extraVolumes has no volume %s" .name) }}{{ end }}
{{- end }}
{{- $variables := list "POD_NAME" "POD_UID" }}
{{- range .Values.extraEnv }}
{{- if has .name $variables }}{{ fail (printf "extraEnv: %s is already set" .name) }}{{ end }}
{{- $variables = append $variables .name }}
{{- end }}
{{- if and (has .Values.registry.provider (list "aws" "gcp" "azure")) .Values.registry.plainHTTP }}{{ fail "registry.provider: sends passwords over HTTPS only; remove registry.plainHTTP" }}{{ end }}
{{- $flags := dict "namespace" "the release's namespace" "keys" "keys.secretName" "location" "location" "agent-poll-interval" "agents.pollInterval" "agent-report-interval" "agents.reportInterval"
  "agent-autonomy" "agents.autonomy" "agent-image" "agents.image" "next-location" "agents.nextLocation" "next-registry-ca" "agents.nextRegistryCA" "validity" "validity" "certificate-validity" "certificateValidity" "allowed-silence" "allowedSilence"
  "deletion-timeout" "deletionTimeout" "report-poll-interval" "reportPollInterval" "component-poll-interval" "componentPollInterval" "min-maintenance-window-size" "minMaintenanceWindowSize"
  "secrets-namespace" "secretsNamespace" "watch-label-selector" "watchLabelSelector" "concurrency" "concurrency" "log-level" "log.level" "log-format" "log.format" "shards" "shards"
  "registry-config" "registry.configSecretName" "registry-provider" "registry.provider" "registry-ca" "registry.caConfigMapName" "git-url" "git.url" "git-branch" "git.branch" "git-tag" "git.tag" "git-path" "git.path" "git-poll-interval" "git.pollInterval"
  "git-credentials" "git.credentialsSecretName" "git-signers" "git.signersConfigMapName" "signature-policy" "signaturePolicy" "maintenance-policy" "maintenancePolicy" "component-cache" "componentCache.enabled"
  "component-cache-size" "componentCache.size" "webhook-service" "webhook.enabled" "receiver-token" "notifications.receiver.tokenSecretName" "events-addr" "events.url" "events-severity" "events.severity"
  "events-reasons" "events.reasons" "events-headers" "events.headersSecretName" "events-ca" "events.caConfigMapName" }}
{{- $set := include "kcp-publisher.flags" . | fromYamlArray }}
{{- range .Values.extraArgs }}
{{- $name := regexFind "^--(set=)?[^=]*" . }}
{{- $flag := $name | trimPrefix "--" | trimPrefix "set=" }}
{{- range $set }}{{ if and (hasKey $flags $flag) (or (eq . $name) (hasPrefix (printf "%s=" $name) .)) }}{{ fail (printf "extraArgs: %s is already set by %s" $name (get $flags $flag)) }}{{ end }}{{ end }}
{{- end }}
{{- end }}
