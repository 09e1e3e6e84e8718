package chart

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheAgentsChartRefusesWrongValuesByName(t *testing.T) {
	refuses(t, "skr-agent", map[string]any{}, map[string]wrong{
		"a value with a typo": {"replica: 2", []string{"'replica'", notAllowed}},
		"a typo further down": {
			"rbac: {clusteradmin: true}",
			[]string{"/rbac", "'clusteradmin'", notAllowed},
		},
		"a duration that is a number": {
			"pollInterval: 60",
			[]string{"/pollInterval", "got number, want string"},
		},
		"a duration without a unit":        {"reportInterval: '60'", []string{"/reportInterval", noPattern}},
		"no workers":                       {"concurrency: 0", []string{"/concurrency", "minimum: got 0, want 1"}},
		"an extra argument without dashes": {"extraArgs: [run]", []string{"/extraArgs/0", noPattern}},
		"a flag that a value sets": {
			"{pollInterval: 1m, extraArgs: [--poll-interval=2m]}",
			[]string{"extraArgs: --poll-interval is already set by pollInterval"},
		},
		"an unknown log level": {"log: {level: warn}", []string{"/log/level", noOption}},
		"a short digest":       {"image: {digest: 'sha256:1234'}", []string{"/image/digest", noPattern}},
		"a repository with a tag": {
			"image: {repository: 'registry.example/agent:1.0.0'}",
			[]string{"/image/repository", noPattern},
		},
		"a repository with a scheme": {
			"image: {repository: 'https://registry.example/agent'}",
			[]string{"/image/repository", noPattern},
		},
		"a tag that is a number": {"image: {tag: 1.2}", []string{"/image/tag", "got number, want string"}},
		"a tag with a digest":    {"image: {tag: '1.0@sha256:00'}", []string{"/image/tag", noPattern}},
		"an unknown pull policy": {
			"image: {pullPolicy: Sometimes}",
			[]string{"/image/pullPolicy", noOption},
		},
		"a pull Secret without a name": {
			"imagePullSecrets: [mirror]",
			[]string{"/imagePullSecrets/0", "got string, want object"},
		},
		"no time to get ready": {
			"minReadySeconds: 300",
			[]string{"minReadySeconds: want less than progressDeadlineSeconds"},
		},
		"roles beside all rights": {
			"rbac: {clusterAdmin: true, clusterRoles: [a]}",
			[]string{"rbac.clusterRoles: has no effect with rbac.clusterAdmin"},
		},
		"rights without roles": {
			"rbac: {create: false, clusterAdmin: true}",
			[]string{"rbac.create: false creates no roles"},
		},
		"a role in capitals": {
			"rbac: {clusterRoles: [Modules]}",
			[]string{"/rbac/clusterRoles/0", noPattern},
		},
		"a role twice": {"rbac: {clusterRoles: [a, a]}", []string{"/rbac/clusterRoles"}},
		"the agent as account of modules": {
			"modules: {serviceAccount: skr-agent}",
			[]string{"modules.serviceAccount: skr-agent is the agent itself"},
		},
		"an account of Kubernetes": {
			"modules: {serviceAccounts: {keda: kube-system/a}}",
			[]string{"modules.serviceAccount: kube-system/a is in kube-system"},
		},
		"an account with two slashes": {
			"modules: {serviceAccount: a/b/c}",
			[]string{"/modules/serviceAccount", noPattern},
		},
		"alerts without metrics": {
			"metrics: {prometheusRule: {enabled: true}}",
			[]string{"metrics.prometheusRule.enabled: the alerts need metrics"},
		},
		"clients of no metrics": {
			"networkPolicy: {metricsFrom: [{podSelector: {}}]}",
			[]string{"networkPolicy.metricsFrom: metrics are not served"},
		},
		"a port that is too large": {
			"networkPolicy: {egressPorts: [70000]}",
			[]string{"/networkPolicy/egressPorts/0", "maximum: got 70,000, want 65,535"},
		},
		"no port at all": {
			"networkPolicy: {egressPorts: []}",
			[]string{"/networkPolicy/egressPorts", "minItems"},
		},
		"a rule as an address": {
			"networkPolicy: {egress: [{cidr: 10.0.0.0/8}]}",
			[]string{"/networkPolicy/egress/0", "'cidr'", notAllowed},
		},
		"a mirror without a target": {
			"registry: {mirrors: [docker.io]}",
			[]string{"/registry/mirrors/0", noPattern},
		},
		"a blob host with a path": {
			"registry: {blobHosts: [storage.example/a]}",
			[]string{"/registry/blobHosts/0", noPattern},
		},
		"notifications without a scheme": {
			"notifications: {url: kyma.example}",
			[]string{"/notifications/url", noPattern},
		},
		"events with a user": {
			"events: {url: 'https://a@hooks.example'}",
			[]string{"/events/url", noPattern},
		},
		"an unknown severity": {
			"events: {url: 'https://hooks.example', severity: warning}",
			[]string{"/events/severity", noOption},
		},
		"headers of no events": {
			"events: {headersSecretName: a}",
			[]string{"events.headersSecretName: has no effect without events.url"},
		},
		"headers over plain HTTP": {
			"events: {url: 'http://hooks.example', headersSecretName: a}",
			[]string{"events.headersSecretName: headers are sent over https only"},
		},
		"a variable that the chart sets": {
			"extraEnv: [{name: POD_NAME, value: a}]",
			[]string{"extraEnv: POD_NAME is already set"},
		},
		"a variable as a number": {
			"extraEnv: [{name: A, value: 1}]",
			[]string{"/extraEnv/0/value", "got number, want string"},
		},
		"a variable twice": {
			"extraEnv: [{name: A, value: b}, {name: A, value: c}]",
			[]string{"extraEnv: A is already set"},
		},
		"a volume without a source": {
			"extraVolumes: [{name: a}]",
			[]string{"/extraVolumes/0", "minProperties"},
		},
		"a mount of no volume": {
			"extraVolumeMounts: [{name: a, mountPath: /a}]",
			[]string{"extraVolumeMounts: extraVolumes has no volume a"},
		},
		"a mount at a relative path": {
			"{extraVolumes: [{name: a, emptyDir: {}}], extraVolumeMounts: [{name: a, mountPath: a}]}",
			[]string{"/extraVolumeMounts/0/mountPath", noPattern},
		},
		"the chart's own label": {
			"podLabels: {app.kubernetes.io/instance: a}",
			[]string{"podLabels: app.kubernetes.io/instance is a label of the chart"},
		},
		"a label as a boolean": {
			"podLabels: {sidecar.istio.io/inject: false}",
			[]string{"/podLabels", "got boolean, want string"},
		},
		"a label's value with a space": {"podLabels: {team: 'a b'}", []string{"/podLabels/team", noPattern}},
		"an unknown unit of memory": {
			"resources: {limits: {memory: 1GB}}",
			[]string{"/resources/limits/memory"},
		},
		"a request with a typo": {
			"resources: {request: {cpu: 50m}}",
			[]string{"/resources", "'request'", notAllowed},
		},
		"a toleration with a typo": {
			"tolerations: [{key: a, operator: Exist}]",
			[]string{"/tolerations/0/operator", noOption},
		},
		"an affinity with a typo": {
			"affinity: {podAntiaffinity: {}}",
			[]string{"/affinity", "'podAntiaffinity'", notAllowed},
		},
		"a rule of spreading without a key": {
			"topologySpreadConstraints: [{maxSkew: 1, whenUnsatisfiable: ScheduleAnyway}]",
			[]string{"/topologySpreadConstraints/0", "topologyKey"},
		},
		"a priority of Kubernetes itself": {
			"priorityClass: {value: 2000000000}",
			[]string{"/priorityClass/value", "maximum"},
		},
		"a budget as a word": {
			"podDisruptionBudget: {maxUnavailable: half}",
			[]string{"/podDisruptionBudget/maxUnavailable"},
		},
		"a user that is a name": {
			"podSecurityContext: {runAsUser: nobody}",
			[]string{"/podSecurityContext/runAsUser", "got string, want integer"},
		},
	})
	t.Run("another namespace", func(t *testing.T) {
		elsewhere := release(t, "skr-agent", map[string]any{})
		elsewhere.Namespace = "other"
		_, err := elsewhere.Render()
		require.ErrorContains(t, err, "release namespace other: the agent and all of its objects are in kyma-system")
	})
}
