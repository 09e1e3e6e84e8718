package chart

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAgentChartRejectsInvalidValues(t *testing.T) {
	refuses(t, "skr-agent", map[string]any{}, map[string]invalidValues{
		"misspelled value": {"replica: 2", []string{"'replica'", notAllowed}},
		"misspelled nested value": {
			"rbac: {clusteradmin: true}",
			[]string{"/rbac", "'clusteradmin'", notAllowed},
		},
		"duration as a number": {
			"pollInterval: 60",
			[]string{"/pollInterval", "got number, want string"},
		},
		"duration without a unit":       {"reportInterval: '60'", []string{"/reportInterval", noPattern}},
		"poll interval of zero":         {"pollInterval: 0s", []string{"/pollInterval", noPattern}},
		"no workers":                    {"concurrency: 0", []string{"/concurrency", "minimum: got 0, want 1"}},
		"extra argument without dashes": {"extraArgs: [run]", []string{"/extraArgs/0", noPattern}},
		"extra argument for a flag that has a chart value": {
			"{pollInterval: 1m, extraArgs: [--poll-interval=2m]}",
			[]string{"extraArgs: --poll-interval is already set by pollInterval"},
		},
		"extra argument for a setting that has a chart value": {
			"{events: {url: 'https://hooks.example/x'}, extraArgs: ['--set=events-addr=https://other.example/x']}",
			[]string{"extraArgs: --set=events-addr is already set by events.url"},
		},
		"upgrade deadline of one minute": {"upgradeDeadline: 60s", []string{"upgradeDeadline: must be more than 1m"}},
		"unknown log level":              {"log: {level: warn}", []string{"/log/level", noOption}},
		"short digest":                   {"image: {digest: 'sha256:1234'}", []string{"/image/digest", noPattern}},
		"image repository with a tag": {
			"image: {repository: 'registry.example/agent:1.0.0'}",
			[]string{"/image/repository", noPattern},
		},
		"image repository with a scheme": {
			"image: {repository: 'https://registry.example/agent'}",
			[]string{"/image/repository", noPattern},
		},
		"image tag as a number":   {"image: {tag: 1.2}", []string{"/image/tag", "got number, want string"}},
		"image tag with a digest": {"image: {tag: '1.0@sha256:00'}", []string{"/image/tag", noPattern}},
		"unknown pull policy": {
			"image: {pullPolicy: Sometimes}",
			[]string{"/image/pullPolicy", noOption},
		},
		"mirror with a scheme": {
			"registry: {mirrors: ['docker.io=https://mirror.example']}",
			[]string{"/registry/mirrors/0", noPattern},
		},
		"pull Secret as a string": {
			"imagePullSecrets: [mirror]",
			[]string{"/imagePullSecrets/0", "got string, want object"},
		},
		"minReadySeconds exceeds the progress deadline": {
			"minReadySeconds: 300",
			[]string{"minReadySeconds: must be less than progressDeadlineSeconds"},
		},
		"cluster roles with clusterAdmin": {
			"rbac: {clusterAdmin: true, clusterRoles: [a]}",
			[]string{"rbac.clusterRoles: has no effect with rbac.clusterAdmin"},
		},
		"clusterAdmin without RBAC": {
			"rbac: {create: false, clusterAdmin: true}",
			[]string{"rbac.create: false creates no roles"},
		},
		"Secrets without RBAC": {
			"rbac: {create: false, secrets: [btp-credentials]}",
			[]string{"rbac.secrets: has no effect"},
		},
		"report details without RBAC": {
			"rbac: {create: false, reportDetails: true}",
			[]string{"rbac.reportDetails: has no effect"},
		},
		"rules for checks without RBAC": {
			"rbac: {create: false, checks: {rules: [{apiGroups: [a.example], resources: [bs], verbs: [list]}]}}",
			[]string{"rbac.checks.rules: has no effect"},
		},
		"cluster role in capitals": {
			"rbac: {clusterRoles: [Modules]}",
			[]string{"/rbac/clusterRoles/0", noPattern},
		},
		"duplicate cluster role": {"rbac: {clusterRoles: [a, a]}", []string{"/rbac/clusterRoles"}},
		"agent's account as the modules' account": {
			"modules: {serviceAccount: skr-agent}",
			[]string{"modules.serviceAccount: skr-agent is the agent's own ServiceAccount"},
		},
		"module account in kube-system": {
			"modules: {serviceAccounts: {keda: kube-system/a}}",
			[]string{"modules.serviceAccount: kube-system/a is in kube-system"},
		},
		"module account with two slashes": {
			"modules: {serviceAccount: a/b/c}",
			[]string{"/modules/serviceAccount", noPattern},
		},
		"alerts without metrics": {
			"metrics: {prometheusRule: {enabled: true}}",
			[]string{"metrics.prometheusRule.enabled: the alerts need metrics"},
		},
		"metrics clients without metrics": {
			"networkPolicy: {metricsFrom: [{podSelector: {}}]}",
			[]string{"networkPolicy.metricsFrom: has no effect, because the agent does not serve metrics"},
		},
		"egress port above 65535": {
			"networkPolicy: {egressPorts: [70000]}",
			[]string{"/networkPolicy/egressPorts/0", "maximum: got 70,000, want 65,535"},
		},
		"empty list of egress ports": {
			"networkPolicy: {egressPorts: []}",
			[]string{"/networkPolicy/egressPorts", "minItems"},
		},
		"egress address instead of a rule": {
			"networkPolicy: {egress: [{cidr: 10.0.0.0/8}]}",
			[]string{"/networkPolicy/egress/0", "'cidr'", notAllowed},
		},
		"mirror without a target": {
			"registry: {mirrors: [docker.io]}",
			[]string{"/registry/mirrors/0", noPattern},
		},
		"unknown provider": {
			"registry: {provider: ibm}",
			[]string{"/registry/provider", "generic"},
		},
		"provider over plain HTTP": {
			"registry: {provider: aws, plainHTTP: true}",
			[]string{"registry.provider", "registry.plainHTTP"},
		},
		"blob host with a path": {
			"registry: {blobHosts: [storage.example/a]}",
			[]string{"/registry/blobHosts/0", noPattern},
		},
		"notification URL without a scheme": {
			"notifications: {url: kyma.example}",
			[]string{"/notifications/url", noPattern},
		},
		"event URL with a user": {
			"events: {url: 'https://a@hooks.example'}",
			[]string{"/events/url", noPattern},
		},
		"unknown event severity": {
			"events: {url: 'https://hooks.example', severity: warning}",
			[]string{"/events/severity", noOption},
		},
		"event headers without a URL": {
			"events: {headersSecretName: a}",
			[]string{"events.headersSecretName: has no effect without events.url"},
		},
		"event headers over plain HTTP": {
			"events: {url: 'http://hooks.example', headersSecretName: a}",
			[]string{"events.headersSecretName: headers are sent over https only"},
		},
		"environment variable that the chart sets": {
			"extraEnv: [{name: POD_NAME, value: a}]",
			[]string{"extraEnv: POD_NAME is already set"},
		},
		"environment variable as a number": {
			"extraEnv: [{name: A, value: 1}]",
			[]string{"/extraEnv/0/value", "got number, want string"},
		},
		"duplicate environment variable": {
			"extraEnv: [{name: A, value: b}, {name: A, value: c}]",
			[]string{"extraEnv: A is already set"},
		},
		"volume without a source": {
			"extraVolumes: [{name: a}]",
			[]string{"/extraVolumes/0", "minProperties"},
		},
		"mount without its volume": {
			"extraVolumeMounts: [{name: a, mountPath: /a}]",
			[]string{"extraVolumeMounts: extraVolumes has no volume a"},
		},
		"mount at a relative path": {
			"{extraVolumes: [{name: a, emptyDir: {}}], extraVolumeMounts: [{name: a, mountPath: a}]}",
			[]string{"/extraVolumeMounts/0/mountPath", noPattern},
		},
		"pod label that the chart sets": {
			"podLabels: {app.kubernetes.io/instance: a}",
			[]string{"podLabels: app.kubernetes.io/instance is a label of the chart"},
		},
		"label as a boolean": {
			"podLabels: {sidecar.istio.io/inject: false}",
			[]string{"/podLabels", "got boolean, want string"},
		},
		"label value with a space": {"podLabels: {team: 'a b'}", []string{"/podLabels/team", noPattern}},
		"unknown memory unit": {
			"resources: {limits: {memory: 1GB}}",
			[]string{"/resources/limits/memory"},
		},
		"misspelled resource requests": {
			"resources: {request: {cpu: 50m}}",
			[]string{"/resources", "'request'", notAllowed},
		},
		"misspelled toleration operator": {
			"tolerations: [{key: a, operator: Exist}]",
			[]string{"/tolerations/0/operator", noOption},
		},
		"misspelled affinity": {
			"affinity: {podAntiaffinity: {}}",
			[]string{"/affinity", "'podAntiaffinity'", notAllowed},
		},
		"spread constraint without a topology key": {
			"topologySpreadConstraints: [{maxSkew: 1, whenUnsatisfiable: ScheduleAnyway}]",
			[]string{"/topologySpreadConstraints/0", "topologyKey"},
		},
		"priority reserved for Kubernetes": {
			"priorityClass: {value: 2000000000}",
			[]string{"/priorityClass/value", "maximum"},
		},
		"disruption budget as a word": {
			"podDisruptionBudget: {maxUnavailable: half}",
			[]string{"/podDisruptionBudget/maxUnavailable"},
		},
		"user ID as a name": {
			"podSecurityContext: {runAsUser: nobody}",
			[]string{"/podSecurityContext/runAsUser", "got string, want integer"},
		},
	})
	t.Run("namespace other than kyma-system", func(t *testing.T) {
		elsewhere := release(t, "skr-agent", map[string]any{})
		elsewhere.Namespace = "other"
		_, err := elsewhere.Render()
		require.ErrorContains(t, err, "release namespace other: the agent and its objects must be in kyma-system")
	})
}
