{{/* Refuses combinations of values that cannot work. */}}
{{- define "skr-agent.checks" -}}
{{- if ne .Release.Namespace "kyma-system" }}{{ fail (printf "release namespace %s: the agent and its objects must be in kyma-system; install the chart with --namespace kyma-system" .Release.Namespace) }}{{ end }}
{{- if ge (int .Values.minReadySeconds) (int .Values.progressDeadlineSeconds) }}{{ fail "minReadySeconds: must be less than progressDeadlineSeconds, with enough time to pull an image" }}{{ end }}
{{- if regexMatch "^(0+h|[01]m|0*([0-9]|[1-5][0-9])(\\.[0-9]+)?s|60s|[0-9]{1,5}(\\.[0-9]+)?ms|0m.*)$" .Values.upgradeDeadline }}{{ fail "upgradeDeadline: must be more than 1m, because each image of the agent must work for one minute" }}{{ end }}
{{- if and .Values.rbac.clusterAdmin .Values.rbac.clusterRoles }}{{ fail "rbac.clusterRoles: has no effect with rbac.clusterAdmin; set clusterAdmin to false, or remove the roles" }}{{ end }}
{{- if not .Values.rbac.create }}
{{- if or .Values.rbac.clusterAdmin .Values.rbac.clusterRoles }}{{ fail "rbac.create: false creates no roles and bindings, so rbac.clusterAdmin and rbac.clusterRoles have no effect; remove them" }}{{ end }}
{{- range $name, $value := dict "reportDetails" .Values.rbac.reportDetails "secrets" .Values.rbac.secrets "checks.rules" .Values.rbac.checks.rules }}{{ if $value }}{{ fail (printf "rbac.%s: has no effect, because rbac.create is false" $name) }}{{ end }}{{ end }}
{{- end }}
{{- range include "skr-agent.moduleAccounts" . | fromJsonArray }}
{{- if eq . "kyma-system/skr-agent" }}{{ fail "modules.serviceAccount: skr-agent is the agent's own ServiceAccount; leave the value empty to install modules with the agent's permissions" }}{{ end }}
{{- if hasPrefix "kube-system/" . }}{{ fail (printf "modules.serviceAccount: %s is in kube-system, whose ServiceAccounts the agent's admission policies treat as part of Kubernetes; use another namespace" .) }}{{ end }}
{{- end }}
{{- if and .Values.metrics.prometheusRule.enabled (not (include "skr-agent.metrics" .)) }}{{ fail "metrics.prometheusRule.enabled: the alerts need metrics; set metrics.enabled or metrics.serviceMonitor.enabled" }}{{ end }}
{{- if and .Values.networkPolicy.metricsFrom (not (include "skr-agent.metrics" .)) }}{{ fail "networkPolicy.metricsFrom: has no effect, because the agent does not serve metrics; set metrics.enabled or metrics.serviceMonitor.enabled" }}{{ end }}
{{- with .Values.events }}
{{- if not .url }}{{ range $name := list "severity" "reasons" "headersSecretName" "caConfigMapName" }}{{ if get $.Values.events $name }}{{ fail (printf "events.%s: has no effect without events.url" $name) }}{{ end }}{{ end }}{{ end }}
{{- if and .headersSecretName (not (hasPrefix "https://" .url)) }}{{ fail "events.headersSecretName: headers are sent over https only; change events.url" }}{{ end }}
{{- end }}
{{- range $name, $value := .Values.podLabels }}
{{- if has $name (list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "helm.sh/chart") }}{{ fail (printf "podLabels: %s is a label of the chart; choose another name" $name) }}{{ end }}
{{- end }}
{{- $volumes := list }}
{{- range .Values.extraVolumes }}
{{- if has .name (list "registry" "registry-ca" "events" "events-ca") }}{{ fail (printf "extraVolumes: %s is a volume of the chart; choose another name" .name) }}{{ end }}
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
{{- $flags := dict "poll-interval" "pollInterval" "report-interval" "reportInterval" "concurrency" "concurrency" "upgrade-deadline" "upgradeDeadline" "notifications-url" "notifications.url"
  "registry-config" "registry.configSecretName" "registry-provider" "registry.provider" "registry-ca" "registry.caConfigMapName" "plain-http" "registry.plainHTTP" "metrics-bind-address" "metrics.enabled" "deployment" "selfUpgrade" "pod" "selfUpgrade"
  "log-level" "log.level" "log-format" "log.format" "events-addr" "events.url" "events-severity" "events.severity" "events-reasons" "events.reasons" "events-headers" "events.headersSecretName" "events-ca" "events.caConfigMapName" }}
{{- $set := include "skr-agent.flags" . | fromYamlArray }}
{{- range .Values.extraArgs }}
{{- $name := regexFind "^--(set=)?[^=]*" . }}
{{- $flag := $name | trimPrefix "--" | trimPrefix "set=" }}
{{- range $set }}{{ if and (hasKey $flags $flag) (or (eq . $name) (hasPrefix (printf "%s=" $name) .)) }}{{ fail (printf "extraArgs: %s is already set by %s" $name (get $flags $flag)) }}{{ end }}{{ end }}
{{- end }}
{{- end }}
