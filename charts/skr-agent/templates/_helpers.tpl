{{- define "skr-agent.selectorLabels" -}}
app.kubernetes.io/name: skr-agent
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "skr-agent.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" | quote }}
{{ include "skr-agent.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
{{- end }}

{{- define "skr-agent.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end }}
{{- end }}

{{/* Flags of `skr-agent run`, including extraArgs. */}}
{{- define "skr-agent.args" -}}
{{- concat (include "skr-agent.flags" . | fromYamlArray) .Values.extraArgs | toYaml }}
{{- end }}

{{/* Flags of `skr-agent run` without extraArgs. An empty value sets no flag, so the program's default applies. */}}
{{- define "skr-agent.flags" -}}
{{- $args := list "run" }}
{{- if include "skr-agent.selfUpgrade" . }}{{ $args = concat $args (list "--deployment=skr-agent" "--pod=$(POD_NAME)") }}{{ end }}
{{- range $flag, $value := dict
  "poll-interval" .Values.pollInterval "report-interval" .Values.reportInterval "concurrency" (int .Values.concurrency)
  "upgrade-deadline" .Values.upgradeDeadline "notifications-url" .Values.notifications.url
  "log-level" .Values.log.level "log-format" .Values.log.format }}
{{- if $value }}{{ $args = append $args (printf "--%s=%v" $flag $value) }}{{ end }}
{{- end }}
{{- if has .Values.registry.provider (list "aws" "gcp" "azure") }}{{ $args = append $args (printf "--registry-provider=%s" .Values.registry.provider) }}{{ end }}
{{- if .Values.registry.configSecretName }}{{ $args = append $args "--registry-config=/etc/skr-agent/registry/.dockerconfigjson" }}{{ end }}
{{- if .Values.registry.caConfigMapName }}{{ $args = append $args "--registry-ca=/etc/skr-agent/registry-ca/ca.crt" }}{{ end }}
{{- if .Values.registry.plainHTTP }}{{ $args = append $args "--plain-http" }}{{ end }}
{{- range .Values.registry.blobHosts }}{{ $args = append $args (printf "--blob-host=%s" .) }}{{ end }}
{{- range .Values.registry.mirrors }}{{ $args = append $args (printf "--mirror=%s" .) }}{{ end }}
{{- if include "skr-agent.metrics" . }}{{ $args = append $args "--metrics-bind-address=:8080" }}{{ end }}
{{- with .Values.modules.serviceAccount }}{{ $args = append $args (printf "--module-service-account=%s" .) }}{{ end }}
{{- range $module, $account := .Values.modules.serviceAccounts }}{{ $args = append $args (printf "--module-service-account=%s=%s" $module $account) }}{{ end }}
{{- with .Values.events }}
{{- if .url }}{{ $args = append $args (printf "--set=events-addr=%s" .url) }}{{ end }}
{{- if .severity }}{{ $args = append $args (printf "--set=events-severity=%s" .severity) }}{{ end }}
{{- if .reasons }}{{ $args = append $args (printf "--set=events-reasons=%s" (join "," .reasons)) }}{{ end }}
{{- if .headersSecretName }}{{ $args = append $args "--set=events-headers=/etc/skr-agent/events/headers" }}{{ end }}
{{- if .caConfigMapName }}{{ $args = append $args "--set=events-ca=/etc/skr-agent/events-ca/ca.crt" }}{{ end }}
{{- end }}
{{- $args | toYaml }}
{{- end }}

{{/* "true" if the agent serves metrics at the address of its pod, otherwise empty. */}}
{{- define "skr-agent.metrics" -}}
{{- if or .Values.metrics.enabled .Values.metrics.serviceMonitor.enabled }}true{{ end }}
{{- end }}

{{/* ServiceAccounts with which the agent installs modules, as a JSON list of NAMESPACE/NAME. */}}
{{- define "skr-agent.moduleAccounts" -}}
{{- $accounts := list }}
{{- range concat (list .Values.modules.serviceAccount) (values (default dict .Values.modules.serviceAccounts)) }}
{{- if . }}{{ $accounts = append $accounts (contains "/" . | ternary . (printf "kyma-system/%s" .)) }}{{ end }}
{{- end }}
{{- $accounts | uniq | sortAlpha | toJson }}
{{- end }}

{{/* "true" if bundles may set the agent's image, otherwise empty. */}}
{{- define "skr-agent.selfUpgrade" -}}
{{- if kindIs "invalid" .Values.selfUpgrade }}{{ if .Values.rbac.clusterAdmin }}true{{ end }}{{ else if .Values.selfUpgrade }}true{{ end }}
{{- end }}

{{/* Egress rule for the metadata service of registry.provider, empty without one. GKE redirects to port 988. */}}
{{- define "skr-agent.metadataEgress" -}}
{{- with get (dict "aws" (list "169.254.170.23/32" "fd00:ec2::23/128") "gcp" (list "169.254.169.254/32" "169.254.169.252/32")) .Values.registry.provider -}}
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

{{/* TCP ports for the NetworkPolicy: networkPolicy.egressPorts, the ports in other values, and 80 for HTTP. */}}
{{- define "skr-agent.egressPorts" -}}
{{- $ports := list }}
{{- range .Values.networkPolicy.egressPorts }}{{ $ports = append $ports (int .) }}{{ end }}
{{- range .Values.registry.mirrors }}
{{- $host := splitList "=" . | last | splitList "/" | first }}
{{- if regexMatch ":[0-9]+$" $host }}{{ $ports = append $ports (regexFind "[0-9]+$" $host | int) }}{{ end }}
{{- end }}
{{- range .Values.registry.blobHosts }}{{ if regexMatch ":[0-9]+$" . }}{{ $ports = append $ports (regexFind "[0-9]+$" . | int) }}{{ end }}{{ end }}
{{- range list .Values.notifications.url .Values.events.url }}{{ if . }}
{{- $url := urlParse . }}
{{- if regexMatch ":[0-9]+$" $url.host }}{{ $ports = append $ports (regexFind "[0-9]+$" $url.host | int) }}
{{- else if eq $url.scheme "http" }}{{ $ports = append $ports 80 }}{{ end }}
{{- end }}{{ end }}
{{- if .Values.registry.plainHTTP }}{{ $ports = append $ports 80 }}{{ end }}
{{- $ports | uniq | toJson }}
{{- end }}

{{/* GOMEMLIMIT of a container: half of its memory limit in Mi or Gi, because render processes use the rest. Empty
without such a limit. */}}
{{- define "skr-agent.goMemoryLimit" -}}
{{- $limit := toString . }}
{{- $mebibytes := 0 }}
{{- if regexMatch "^[0-9]+Mi$" $limit }}{{ $mebibytes = trimSuffix "Mi" $limit | int }}{{ end }}
{{- if regexMatch "^[0-9]+Gi$" $limit }}{{ $mebibytes = trimSuffix "Gi" $limit | int | mul 1024 }}{{ end }}
{{- if $mebibytes }}{{ printf "%dMiB" (div (mul $mebibytes 50) 100) }}{{ end }}
{{- end }}

{{/* Environment variables of the container: extraEnv, and GOMEMLIMIT unless extraEnv sets it. */}}
{{- define "skr-agent.env" -}}
{{- $env := list }}
{{- $limit := dig "limits" "memory" "" (default dict .resources) | include "skr-agent.goMemoryLimit" }}
{{- $own := false }}
{{- range .extraEnv }}{{ if eq .name "GOMEMLIMIT" }}{{ $own = true }}{{ end }}{{ end }}
{{- if and $limit (not $own) }}{{ $env = append $env (dict "name" "GOMEMLIMIT" "value" $limit) }}{{ end }}
{{- with concat $env .extraEnv }}{{ toYaml . }}{{ end }}
{{- end }}
