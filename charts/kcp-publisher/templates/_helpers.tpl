{{- define "kcp-publisher.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "kcp-publisher.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "kcp-publisher.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "kcp-publisher.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* Name of the Service for a part of the program. The argument has the fields context and part. */}}
{{- define "kcp-publisher.serviceName" -}}
{{ include "kcp-publisher.fullname" .context | trunc (sub 62 (len .part) | int) | trimSuffix "-" }}-{{ .part }}
{{- end }}

{{- define "kcp-publisher.selectorLabels" -}}
app.kubernetes.io/name: {{ include "kcp-publisher.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "kcp-publisher.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" | quote }}
{{ include "kcp-publisher.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
{{- end }}

{{- define "kcp-publisher.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "kcp-publisher.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name: is required without serviceAccount.create; set it to an existing ServiceAccount" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "kcp-publisher.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end }}
{{- end }}

{{/* Flags of `kcp-publisher run`, including extraArgs. */}}
{{- define "kcp-publisher.args" -}}
{{- concat (include "kcp-publisher.flags" . | fromYamlArray) .Values.extraArgs | toYaml }}
{{- end }}

{{/* Flags of `kcp-publisher run` without extraArgs. An empty value sets no flag, so the program's default applies. */}}
{{- define "kcp-publisher.flags" -}}
{{- $args := list "run" (printf "--namespace=%s" .Release.Namespace) "--keys=/etc/kcp-publisher/keys" }}
{{- $args = append $args (printf "--location=%s" (required "location: is required; set it to the registry prefix HOST/PATH of the bundles" .Values.location)) }}
{{- range .Values.components }}{{ $args = append $args (printf "--components=%s" .) }}{{ end }}
{{- range .Values.helmRepositories }}{{ $args = append $args (printf "--helm-repositories=%s" .) }}{{ end }}
{{- range .Values.agents.mirrors }}{{ $args = append $args (printf "--mirror=%s" .) }}{{ end }}
{{- range .Values.agents.imagePaths }}{{ $args = append $args (printf "--set=image-path=%s" .) }}{{ end }}
{{- range $flag, $value := dict
  "agent-poll-interval" .Values.agents.pollInterval "agent-report-interval" .Values.agents.reportInterval
  "agent-autonomy" .Values.agents.autonomy "agent-image" .Values.agents.image "next-location" .Values.agents.nextLocation
  "validity" .Values.validity "allowed-silence" .Values.allowedSilence
  "secrets-namespace" .Values.secretsNamespace "watch-label-selector" .Values.watchLabelSelector "concurrency" (int .Values.concurrency) "log-level" .Values.log.level "log-format" .Values.log.format
  "set=certificate-validity" .Values.certificateValidity "set=deletion-timeout" .Values.deletionTimeout
  "set=report-poll-interval" .Values.reportPollInterval "set=component-poll-interval" .Values.componentPollInterval
  "set=min-maintenance-window-size" .Values.minMaintenanceWindowSize }}
{{- if $value }}{{ $args = append $args (printf "--%s=%v" $flag $value) }}{{ end }}
{{- end }}
{{- if has .Values.registry.provider (list "aws" "gcp" "azure") }}{{ $args = append $args (printf "--registry-provider=%s" .Values.registry.provider) }}{{ end }}
{{- if .Values.registry.configSecretName }}{{ $args = append $args "--registry-config=/etc/kcp-publisher/registry/.dockerconfigjson" }}{{ end }}
{{- if .Values.registry.caConfigMapName }}{{ $args = append $args "--registry-ca=/etc/kcp-publisher/registry-ca/ca.crt" }}{{ end }}
{{- if .Values.registry.plainHTTP }}{{ $args = append $args "--plain-http" }}{{ end }}
{{- range .Values.registry.blobHosts }}{{ $args = append $args (printf "--blob-host=%s" .) }}{{ end }}
{{- if .Values.git.url }}
{{- range $flag, $value := dict "git-url" .Values.git.url "git-branch" .Values.git.branch "git-tag" .Values.git.tag "git-path" .Values.git.path "set=git-poll-interval" .Values.git.pollInterval }}
{{- if $value }}{{ $args = append $args (printf "--%s=%s" $flag $value) }}{{ end }}
{{- end }}
{{- if .Values.git.credentialsSecretName }}{{ $args = append $args "--git-credentials=/etc/kcp-publisher/git" }}{{ end }}
{{- if .Values.git.signersConfigMapName }}{{ $args = append $args "--git-signers=/etc/kcp-publisher/git-signers/signers" }}{{ end }}
{{- end }}
{{- if gt (int .Values.shards) 1 }}{{ $args = append $args (printf "--shards=%d" (int .Values.shards)) }}{{ end }}
{{- if not .Values.metrics.auth }}{{ $args = append $args "--metrics-auth=false" }}{{ end }}
{{- if .Values.signaturePolicy }}{{ $args = append $args "--signature-policy=/etc/kcp-publisher/config/signature-policy.yaml" }}{{ end }}
{{- with .Values.signatureKeysNamespace }}{{ $args = append $args (printf "--signature-keys-namespace=%s" .) }}{{ end }}
{{- if .Values.agents.nextRegistryCA }}{{ $args = append $args "--next-registry-ca=/etc/kcp-publisher/config/next-ca.crt" }}{{ end }}
{{- if .Values.maintenancePolicy }}{{ $args = append $args "--maintenance-policy=/etc/kcp-publisher/config/maintenance-policy.json" }}{{ end }}
{{- if .Values.componentCache.enabled }}{{ $args = concat $args (list "--component-cache=/var/cache/kcp-publisher" (printf "--set=component-cache-size=%s" .Values.componentCache.size)) }}{{ end }}
{{- if .Values.webhook.enabled }}{{ $args = append $args (printf "--webhook-service=%s/%s:443" .Release.Namespace (include "kcp-publisher.serviceName" (dict "context" . "part" "webhook"))) }}{{ end }}
{{- with .Values.notifications }}
{{- if .receiver.enabled }}{{ $args = concat $args (list "--receiver-bind-address=:8083" "--receiver-token=/etc/kcp-publisher/receiver/token") }}{{ end }}
{{- if .agents.enabled }}
{{- $args = append $args "--notifications-bind-address=:8084" }}
{{- if .agents.connections }}{{ $args = append $args (printf "--set=notifications-connections=%d" (int .agents.connections)) }}{{ end }}
{{- if $.Values.tokenService.generationsConfigMapName }}{{ $args = append $args "--set=notifications-generations=/etc/kcp-publisher/generations/generations.yaml" }}{{ end }}
{{- end }}
{{- if and .tlsSecretName (or .receiver.enabled .agents.enabled) }}
{{- $args = concat $args (list "--set=notifications-tls-certificate=/etc/kcp-publisher/notifications-tls/tls.crt" "--set=notifications-tls-key=/etc/kcp-publisher/notifications-tls/tls.key") }}
{{- end }}
{{- end }}
{{- with .Values.events }}
{{- if .url }}{{ $args = append $args (printf "--set=events-addr=%s" .url) }}{{ end }}
{{- if .severity }}{{ $args = append $args (printf "--set=events-severity=%s" .severity) }}{{ end }}
{{- if .reasons }}{{ $args = append $args (printf "--set=events-reasons=%s" (join "," .reasons)) }}{{ end }}
{{- if .headersSecretName }}{{ $args = append $args "--set=events-headers=/etc/kcp-publisher/events/headers" }}{{ end }}
{{- if .caConfigMapName }}{{ $args = append $args "--set=events-ca=/etc/kcp-publisher/events-ca/ca.crt" }}{{ end }}
{{- end }}
{{- $args | toYaml }}
{{- end }}

{{/* topologySpreadConstraints of a workload: the configured ones (own), or a preference for different nodes if own and
affinity are empty. The argument has the fields own, affinity, replicas and labels. */}}
{{- define "kcp-publisher.spread" -}}
{{- if .own }}{{ toYaml .own }}
{{- else if and (gt (int .replicas) 1) (not .affinity) }}
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- .labels | nindent 6 }}
{{- end }}
{{- end }}

{{/* TCP ports for the NetworkPolicy: networkPolicy.egressPorts, and the ports in location, components,
helmRepositories and events.url. */}}
{{- define "kcp-publisher.egressPorts" -}}
{{- $ports := list }}
{{- range .Values.networkPolicy.egressPorts }}{{ $ports = append $ports (int .) }}{{ end }}
{{- $ports = include "kcp-publisher.registryPorts" (dict "locations" (concat (list .Values.location) .Values.components) "registry" .Values.registry) | fromJsonArray | concat $ports }}
{{- range concat .Values.helmRepositories (list .Values.events.url | compact) }}
{{- $url := urlParse . }}
{{- if regexMatch ":[0-9]+$" $url.host }}{{ $ports = append $ports (regexFind "[0-9]+$" $url.host | int) }}
{{- else if eq $url.scheme "http" }}{{ $ports = append $ports 80 }}{{ end }}
{{- end }}
{{- $numbers := list }}{{ range $ports }}{{ $numbers = append $numbers (int .) }}{{ end }}
{{- $numbers | uniq | toJson }}
{{- end }}

{{/* Egress rule for the metadata service of registry.provider, empty without one. GKE redirects to port 988. */}}
{{- define "kcp-publisher.metadataEgress" -}}
{{- with get (dict "aws" (list "169.254.170.23/32" "fd00:ec2::23/128" "169.254.169.254/32" "fd00:ec2::254/128") "azure" (list "169.254.169.254/32") "gcp" (list "169.254.169.254/32" "169.254.169.252/32")) .Values.registry.provider -}}
- to:
  {{- range . }}
  - ipBlock:
      cidr: {{ . | quote }}
  {{- end }}
  ports:
  - port: 80
    protocol: TCP
  - port: 988
    protocol: TCP
{{- end }}
{{- end }}

{{/* TCP ports other than 443 of registries: those in the argument's locations and in registry.blobHosts, and 80. */}}
{{- define "kcp-publisher.registryPorts" -}}
{{- $ports := list }}
{{- range concat .locations .registry.blobHosts }}
{{- $host := splitList "/" . | first }}
{{- if regexMatch ":[0-9]+$" $host }}{{ $ports = append $ports (regexFind "[0-9]+$" $host | int) }}{{ end }}
{{- end }}
{{- if .registry.plainHTTP }}{{ $ports = append $ports 80 }}{{ end }}
{{- $ports | toJson }}
{{- end }}

{{/* TCP ports for the NetworkPolicy of the page: ui.egressPorts, and the registry's ports with ui.registry.enabled. */}}
{{- define "kcp-publisher.uiEgressPorts" -}}
{{- $ports := .Values.ui.egressPorts }}
{{- if .Values.ui.registry.enabled }}
{{- $ports = include "kcp-publisher.registryPorts" (dict "locations" (list .Values.location) "registry" .Values.registry) | fromJsonArray | concat $ports }}
{{- end }}
{{- $numbers := list }}{{ range $ports }}{{ $numbers = append $numbers (int .) }}{{ end }}
{{- $numbers | uniq | toJson }}
{{- end }}

{{- define "kcp-publisher.tokenServiceSelectorLabels" -}}
app.kubernetes.io/name: "{{ include "kcp-publisher.name" . | trunc 49 | trimSuffix "-" }}-token-service"
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "kcp-publisher.tokenServiceLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" | quote }}
{{ include "kcp-publisher.tokenServiceSelectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
{{- end }}

{{- define "kcp-publisher.tokenServiceArgs" -}}
{{- $args := list "token-service" "--keys=/etc/token-service/keys" (printf "--location=%s" .Values.location) }}
{{- range .Values.tokenService.moduleRepositories }}{{ $args = append $args (printf "--module-repository=%s" .) }}{{ end }}
{{- range $flag, $value := dict "service" .Values.tokenService.service "issuer" .Values.tokenService.issuer "log-level" .Values.log.level "log-format" .Values.log.format }}
{{- if $value }}{{ $args = append $args (printf "--%s=%s" $flag $value) }}{{ end }}
{{- end }}
{{- if .Values.tokenService.tlsSecretName }}{{ $args = concat $args (list "--tls-certificate=/etc/token-service/tls/tls.crt" "--tls-key=/etc/token-service/tls/tls.key") }}{{ end }}
{{- if .Values.tokenService.generationsConfigMapName }}{{ $args = append $args "--generations=/etc/token-service/generations/generations.yaml" }}{{ end }}
{{- $args | toYaml }}
{{- end }}

{{- define "kcp-publisher.uiName" -}}
{{ include "kcp-publisher.serviceName" (dict "context" . "part" "ui") }}
{{- end }}

{{- define "kcp-publisher.uiServiceAccountName" -}}
{{ default (include "kcp-publisher.uiName" .) .Values.ui.serviceAccountName }}
{{- end }}

{{- define "kcp-publisher.uiSelectorLabels" -}}
app.kubernetes.io/name: "{{ include "kcp-publisher.name" . | trunc 60 | trimSuffix "-" }}-ui"
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "kcp-publisher.uiLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" | quote }}
{{ include "kcp-publisher.uiSelectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
{{- end }}

{{/* Flags of `kcp-publisher ui`. An empty value sets no flag, so the program's default applies. */}}
{{- define "kcp-publisher.uiArgs" -}}
{{- $args := list "ui" (printf "--namespace=%s" .Release.Namespace) "--bind-address=:8085" "--session-key=/etc/kcp-publisher-ui/session/session.key" }}
{{- $args = append $args (printf "--external-url=%s" (required "ui.externalURL: is required with ui.enabled; set it to the https://HOST of the page" .Values.ui.externalURL)) }}
{{- range $flag, $value := dict "session-lifetime" .Values.ui.sessionLifetime "token-audience" .Values.ui.tokenAudience
  "log-level" .Values.log.level "log-format" .Values.log.format }}
{{- if $value }}{{ $args = append $args (printf "--%s=%s" $flag $value) }}{{ end }}
{{- end }}
{{- if ne (int .Values.ui.trustedProxies) 1 }}{{ $args = append $args (printf "--trusted-proxies=%d" (int .Values.ui.trustedProxies)) }}{{ end }}
{{- if not .Values.ui.tokens }}{{ $args = append $args "--sign-in-with-tokens=false" }}{{ end }}
{{- if .Values.ui.tlsSecretName }}{{ $args = concat $args (list "--tls-certificate=/etc/kcp-publisher-ui/tls/tls.crt" "--tls-key=/etc/kcp-publisher-ui/tls/tls.key") }}{{ end }}
{{- if .Values.ui.registry.enabled }}
{{- $args = concat $args (list (printf "--location=%s" .Values.location) "--trust=/etc/kcp-publisher-ui/trust/root.json") }}
{{- if has .Values.registry.provider (list "aws" "gcp" "azure") }}{{ $args = append $args (printf "--registry-provider=%s" .Values.registry.provider) }}{{ end }}
{{- if .Values.ui.registry.configSecretName }}{{ $args = append $args "--registry-config=/etc/kcp-publisher-ui/registry/.dockerconfigjson" }}{{ end }}
{{- if .Values.registry.caConfigMapName }}{{ $args = append $args "--registry-ca=/etc/kcp-publisher-ui/registry-ca/ca.crt" }}{{ end }}
{{- if .Values.registry.plainHTTP }}{{ $args = append $args "--plain-http" }}{{ end }}
{{- range .Values.registry.blobHosts }}{{ $args = append $args (printf "--blob-host=%s" .) }}{{ end }}
{{- end }}
{{- with .Values.ui.oidc }}
{{- if .issuerURL }}
{{- range $flag, $value := dict "issuer-url" .issuerURL "client-id" .clientID "username-claim" .usernameClaim "username-prefix" .usernamePrefix
  "groups-claim" .groupsClaim "groups-prefix" .groupsPrefix }}
{{- if $value }}{{ $args = append $args (printf "--oidc-%s=%s" $flag $value) }}{{ end }}
{{- end }}
{{- range .scopes }}{{ $args = append $args (printf "--oidc-scope=%s" .) }}{{ end }}
{{- if .clientSecretName }}{{ $args = append $args "--oidc-client-secret=/etc/kcp-publisher-ui/oidc/client-secret" }}{{ end }}
{{- if .caConfigMapName }}{{ $args = append $args "--oidc-ca-file=/etc/kcp-publisher-ui/oidc-ca/ca.crt" }}{{ end }}
{{- if .tokenForAPIServer }}{{ $args = append $args "--oidc-token-for-api-server" }}{{ end }}
{{- end }}
{{- end }}
{{- $args | toYaml }}
{{- end }}

{{/* GOMEMLIMIT of a container: percent of its memory limit in Mi or Gi. Empty without such a limit. */}}
{{- define "kcp-publisher.goMemoryLimit" -}}
{{- $limit := toString .limit }}
{{- $mebibytes := 0 }}
{{- if regexMatch "^[0-9]+Mi$" $limit }}{{ $mebibytes = trimSuffix "Mi" $limit | int }}{{ end }}
{{- if regexMatch "^[0-9]+Gi$" $limit }}{{ $mebibytes = trimSuffix "Gi" $limit | int | mul 1024 }}{{ end }}
{{- if $mebibytes }}{{ printf "%dMiB" (div (mul $mebibytes .percent) 100) }}{{ end }}
{{- end }}

{{/* Environment variables of the container: extraEnv, and GOMEMLIMIT unless extraEnv sets it. */}}
{{- define "kcp-publisher.env" -}}
{{- $env := list }}
{{- $memory := dig "limits" "memory" "" (default dict .resources) }}
{{- $limit := include "kcp-publisher.goMemoryLimit" (dict "limit" $memory "percent" (default 90 .percent)) }}
{{- $own := false }}
{{- range .extraEnv }}{{ if eq .name "GOMEMLIMIT" }}{{ $own = true }}{{ end }}{{ end }}
{{- if and $limit (not $own) }}{{ $env = append $env (dict "name" "GOMEMLIMIT" "value" $limit) }}{{ end }}
{{- with concat $env .extraEnv }}{{ toYaml . }}{{ end }}
{{- end }}
