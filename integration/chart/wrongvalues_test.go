package chart

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// wrong is a set of values that a chart must refuse, and the texts that its error must contain: value and reason.
type wrong struct {
	values string
	want   []string
}

const (
	notAllowed = "not allowed"
	noPattern  = "does not match pattern"
	noOption   = "must be one of"
	page       = "ui: {enabled: true, externalURL: 'https://fleet.example', sessionSecretName: session"
)

func refuses(t *testing.T, name string, good map[string]any, table map[string]wrong) {
	t.Helper()
	require.GreaterOrEqual(t, len(table), 35)
	_, err := release(t, name, maps.Clone(good)).Render()
	require.NoError(t, err, "the values that every case changes are right")
	for about, c := range table {
		t.Run(about, func(t *testing.T) {
			values := maps.Clone(good)
			require.NoError(t, yaml.Unmarshal([]byte(c.values), &values))
			_, err := release(t, name, values).Render()
			require.Error(t, err)
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

func TestThePublishersChartRefusesWrongValuesByName(t *testing.T) {
	good := map[string]any{"location": "registry.example/fleet", "keys": map[string]any{"secretName": "keys"}}
	refuses(t, "kcp-publisher", good, map[string]wrong{
		"a value with a typo": {"replica: 2", []string{"'replica'", notAllowed}},
		"a typo further down": {"keys: {secret: a}", []string{"/keys", "'secret'", notAllowed}},
		"no location": {
			"location: ''",
			[]string{"location: name the registry prefix HOST/PATH"},
		},
		"a location with a scheme": {
			"location: https://registry.example/fleet",
			[]string{"/location", noPattern},
		},
		"a location without a path": {"location: registry.example", []string{"/location", noPattern}},
		"no keys": {
			"keys: {secretName: ''}",
			[]string{"keys.secretName: name an existing Secret"},
		},
		"a Secret's name in capitals": {
			"keys: {secretName: Fleet-Keys}",
			[]string{"/keys/secretName", noPattern},
		},
		"no name for a foreign account": {
			"serviceAccount: {create: false}",
			[]string{"serviceAccount.name: name an existing ServiceAccount"},
		},
		"annotations of a foreign account": {
			"serviceAccount: {create: false, name: a, annotations: {a: b}}",
			[]string{"serviceAccount.annotations: has no effect"},
		},
		"a token service without keys": {
			"tokenService: {enabled: true}",
			[]string{"tokenService.keysSecretName: name an existing Secret"},
		},
		"a page without an address": {
			"ui: {enabled: true, sessionSecretName: a}",
			[]string{"ui.externalURL: name the https://HOST"},
		},
		"a page without a session key": {
			"ui: {enabled: true, externalURL: 'https://fleet.example'}",
			[]string{"ui.sessionSecretName: name an existing Secret"},
		},
		"a page by plain HTTP": {
			"ui: {enabled: true, externalURL: 'http://fleet.example'}",
			[]string{"/ui/externalURL", noPattern},
		},
		"a page without a way to sign in": {
			page + ", tokens: false}",
			[]string{"ui.tokens: false leaves no way to sign in"},
		},
		"an issuer without a client": {
			page + ", oidc: {issuerURL: 'https://login.example'}}",
			[]string{"ui.oidc.clientID: is required"},
		},
		"a client without an issuer": {
			page + ", oidc: {clientID: fleet}}",
			[]string{"ui.oidc.clientID: has no effect without ui.oidc.issuerURL"},
		},
		"an issuer by plain HTTP": {
			page + ", oidc: {issuerURL: 'http://login.example', clientID: a}}",
			[]string{"/ui/oidc/issuerURL", noPattern},
		},
		"an audience of unused tokens": {
			page + ", tokens: false, tokenAudience: a, oidc: {issuerURL: 'https://login.example', clientID: a}}",
			[]string{"ui.tokenAudience: has no effect"},
		},
		"a route without a gateway": {
			page + ", httpRoute: {enabled: true}}",
			[]string{"ui.httpRoute.parentRefs"},
		},
		"shards with Git": {
			"{shards: 4, git: {url: 'https://git.example/fleet'}}",
			[]string{"shards: more than 1 cannot be combined with git.url"},
		},
		"shards with a selector": {
			"{shards: 4, watchLabelSelector: a=b}",
			[]string{"shards: more than 1 cannot be combined with watchLabelSelector"},
		},
		"shards with notifications": {
			"{shards: 4, notifications: {agents: {enabled: true}}}",
			[]string{"shards: more than 1 cannot be combined with notifications.receiver.enabled"},
		},
		"fewer shards than replicas": {
			"{shards: 2, replicas: 3}",
			[]string{"shards: 2 is less than replicas (3)"},
		},
		"too many shards": {"shards: 65", []string{"/shards", "maximum: got 65, want 64"}},
		"a selector with Git": {
			"{watchLabelSelector: a=b, git: {url: 'https://git.example/fleet'}}",
			[]string{"watchLabelSelector: cannot be combined with git.url"},
		},
		"a branch and a tag": {
			"git: {url: 'https://git.example/fleet', branch: main, tag: v1}",
			[]string{"git.tag: cannot be combined with git.branch"},
		},
		"a branch of no repository": {
			"git: {branch: main}",
			[]string{"git.branch: has no effect without git.url"},
		},
		"a repository without a scheme": {"git: {url: git.example/fleet}", []string{"/git/url", noPattern}},
		"an absolute folder of a repository": {
			"git: {url: 'https://git.example/fleet', path: /fleet}",
			[]string{"/git/path", noPattern},
		},
		"Secrets beside the keys": {
			"secretsNamespace: kcp-system",
			[]string{"secretsNamespace: kcp-system is the namespace of this release"},
		},
		"components as a text": {
			"components: registry.example/modules",
			[]string{"/components", "got string, want array"},
		},
		"components with a scheme": {
			"components: ['https://registry.example/modules']",
			[]string{"/components/0", noPattern},
		},
		"a Helm repository without a scheme": {
			"helmRepositories: [charts.example]",
			[]string{"/helmRepositories/0", noPattern},
		},
		"a mirror without a target": {
			"agents: {mirrors: [docker.io]}",
			[]string{"/agents/mirrors/0", noPattern},
		},
		"an agent's image by tag": {
			"agents: {image: 'registry.example/agent:1.0.0'}",
			[]string{"/agents/image", noPattern},
		},
		"an unknown autonomy": {"agents: {autonomy: Full}", []string{"/agents/autonomy", noOption}},
		"a duration in days":  {"validity: 2d", []string{"/validity", noPattern}},
		"a size without a unit of Kubernetes": {
			"componentCache: {size: 2GB}",
			[]string{"/componentCache/size", noPattern},
		},
		"a claim of no cache": {
			"componentCache: {enabled: false, existingClaim: a}",
			[]string{"componentCache.existingClaim: has no effect"},
		},
		"finalizers without roles": {
			"rbac: {create: false, foreignFinalizers: true}",
			[]string{"rbac.foreignFinalizers: has no effect"},
		},
		"generations of nobody": {
			"tokenService: {generationsConfigMapName: a}",
			[]string{"tokenService.generationsConfigMapName: has no effect"},
		},
		"events without a scheme": {"events: {url: hooks.example}", []string{"/events/url", noPattern}},
		"a severity of no events": {
			"events: {severity: error}",
			[]string{"events.severity: has no effect without events.url"},
		},
		"headers over plain HTTP": {
			"events: {url: 'http://hooks.example', headersSecretName: a}",
			[]string{"events.headersSecretName: headers are sent over https only"},
		},
		"a flag that a value sets": {
			"extraArgs: [--location=registry.example/other]",
			[]string{"extraArgs: --location is already set by location"},
		},
		"a mount of no volume": {
			"extraVolumeMounts: [{name: a, mountPath: /a}]",
			[]string{"extraVolumeMounts: extraVolumes has no volume a"},
		},
		"the chart's own volume": {
			"extraVolumes: [{name: keys, emptyDir: {}}]",
			[]string{"extraVolumes: keys is a volume of the chart"},
		},
		"the chart's own label": {
			"podLabels: {app.kubernetes.io/name: a}",
			[]string{"podLabels: app.kubernetes.io/name is a label of the chart"},
		},
		"an unknown unit of memory": {
			"resources: {limits: {memory: lots}}",
			[]string{"/resources/limits/memory"},
		},
		"a rule of spreading without a key": {
			"topologySpreadConstraints: [{maxSkew: 1, whenUnsatisfiable: ScheduleAnyway}]",
			[]string{"/topologySpreadConstraints/0", "topologyKey"},
		},
		"a client as an address": {
			"tokenService: {from: [{cidr: 10.0.0.0/8}]}",
			[]string{"/tokenService/from/0", "'cidr'", notAllowed},
		},
	})
}
