package chart

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// invalidValues contains invalid chart values and the strings that the error must contain.
type invalidValues struct {
	values string
	want   []string
}

const (
	notAllowed = "not allowed"
	noPattern  = "does not match pattern"
	noOption   = "must be one of"
	page       = "ui: {enabled: true, externalURL: 'https://fleet.example', sessionSecretName: session"
)

func refuses(t *testing.T, name string, good map[string]any, table map[string]invalidValues) {
	t.Helper()
	require.GreaterOrEqual(t, len(table), 35)
	_, err := release(t, name, maps.Clone(good)).Render()
	require.NoError(t, err, "the base values must be valid")
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

func TestPublisherChartRejectsInvalidValues(t *testing.T) {
	good := map[string]any{"location": "registry.example/fleet", "keys": map[string]any{"secretName": "keys"}}
	const anyPolicy = "signaturePolicy: {apiVersion: kyma-pull.dev/v1, kind: SignaturePolicy, " +
		"rules: [{components: 'a/*', required: true}]}"
	refuses(t, "kcp-publisher", good, map[string]invalidValues{
		"misspelled value":        {"replica: 2", []string{"'replica'", notAllowed}},
		"misspelled nested value": {"keys: {secret: a}", []string{"/keys", "'secret'", notAllowed}},
		"no location": {
			"location: ''",
			[]string{"location: is required; set it to the registry prefix HOST/PATH"},
		},
		"location with a scheme": {
			"location: https://registry.example/fleet",
			[]string{"/location", noPattern},
		},
		"location without a path": {"location: registry.example", []string{"/location", noPattern}},
		"location with a path in capitals": {
			"location: registry.example/Fleet",
			[]string{"/location", noPattern},
		},
		"location with a host without a domain": {"location: registry/fleet", []string{"/location", noPattern}},
		"next location with a scheme": {
			"agents: {nextLocation: 'https://new.example/fleet'}",
			[]string{"/agents/nextLocation", noPattern},
		},
		"validity of zero": {"validity: 0s", []string{"/validity", noPattern}},
		"poll interval of zero for Git": {
			"git: {url: 'https://git.example/fleet', pollInterval: 0h0m}",
			[]string{"/git/pollInterval", noPattern},
		},
		"repository without SSH identity": {
			"git: {url: 'git@git.example:fleet'}",
			[]string{"git.credentialsSecretName: is required"},
		},
		"no key Secret": {
			"keys: {secretName: ''}",
			[]string{"keys.secretName: is required; create a Secret"},
		},
		"Secret name in capitals": {
			"keys: {secretName: Fleet-Keys}",
			[]string{"/keys/secretName", noPattern},
		},
		"existing account without a name": {
			"serviceAccount: {create: false}",
			[]string{"serviceAccount.name: is required without serviceAccount.create"},
		},
		"annotations of an existing account": {
			"serviceAccount: {create: false, name: a, annotations: {a: b}}",
			[]string{"serviceAccount.annotations: has no effect"},
		},
		"token service without keys": {
			"tokenService: {enabled: true}",
			[]string{"tokenService.keysSecretName: is required"},
		},
		"web page without an external URL": {
			"ui: {enabled: true, sessionSecretName: a}",
			[]string{"ui.externalURL: is required with ui.enabled"},
		},
		"web page without a session key": {
			"ui: {enabled: true, externalURL: 'https://fleet.example'}",
			[]string{"ui.sessionSecretName: is required"},
		},
		"web page over plain HTTP": {
			"ui: {enabled: true, externalURL: 'http://fleet.example'}",
			[]string{"/ui/externalURL", noPattern},
		},
		"web page without authentication": {
			page + ", tokens: false}",
			[]string{"ui.tokens: false requires ui.oidc.issuerURL"},
		},
		"OIDC issuer without a client": {
			page + ", oidc: {issuerURL: 'https://login.example'}}",
			[]string{"ui.oidc.clientID: is required"},
		},
		"OIDC client without an issuer": {
			page + ", oidc: {clientID: fleet}}",
			[]string{"ui.oidc.clientID: has no effect without ui.oidc.issuerURL"},
		},
		"OIDC issuer over plain HTTP": {
			page + ", oidc: {issuerURL: 'http://login.example', clientID: a}}",
			[]string{"/ui/oidc/issuerURL", noPattern},
		},
		"token audience without token authentication": {
			page + ", tokens: false, tokenAudience: a, oidc: {issuerURL: 'https://login.example', clientID: a}}",
			[]string{"ui.tokenAudience: has no effect"},
		},
		"ingress of a disabled web page": {
			"ui: {ingress: {enabled: true}}",
			[]string{"ui.ingress.enabled: has no effect without ui.enabled"},
		},
		"HTTP route of a disabled web page": {
			"ui: {httpRoute: {enabled: true}}",
			[]string{"ui.httpRoute.enabled: has no effect without ui.enabled"},
		},
		"registry of a disabled web page": {
			"ui: {registry: {enabled: true}}",
			[]string{"ui.registry.enabled: has no effect without ui.enabled"},
		},
		"registry credentials of a web page without the registry": {
			page + ", registry: {configSecretName: pull}}",
			[]string{"ui.registry.configSecretName: has no effect without ui.registry.enabled"},
		},
		"web page with the publisher's credentials": {
			page + ", registry: {enabled: true, configSecretName: push}}\nregistry: {configSecretName: push}",
			[]string{"ui.registry.configSecretName: push contains the publisher's credentials"},
		},
		"HTTP route without a gateway": {
			page + ", httpRoute: {enabled: true}}",
			[]string{"ui.httpRoute.parentRefs"},
		},
		"fewer shards than replicas": {
			"{shards: 2, replicas: 3}",
			[]string{"shards: 2 is less than replicas (3)"},
		},
		"too many shards": {"shards: 65", []string{"/shards", "maximum: got 65, want 64"}},
		"label selector with Git": {
			"{watchLabelSelector: a=b, git: {url: 'https://git.example/fleet'}}",
			[]string{"watchLabelSelector: cannot be combined with git.url"},
		},
		"Git branch and tag": {
			"git: {url: 'https://git.example/fleet', branch: main, tag: v1}",
			[]string{"git.tag: cannot be combined with git.branch"},
		},
		"Git branch without a URL": {
			"git: {branch: main}",
			[]string{"git.branch: has no effect without git.url"},
		},
		"Git URL without a scheme": {"git: {url: git.example/fleet}", []string{"/git/url", noPattern}},
		"absolute Git path": {
			"git: {url: 'https://git.example/fleet', path: /fleet}",
			[]string{"/git/path", noPattern},
		},
		"Secrets namespace equals the keys' namespace": {
			"secretsNamespace: kcp-system",
			[]string{"secretsNamespace: kcp-system is the namespace of this release"},
		},
		"components as a string": {
			"components: registry.example/modules",
			[]string{"/components", "got string, want array"},
		},
		"components with a scheme": {
			"components: ['https://registry.example/modules']",
			[]string{"/components/0", noPattern},
		},
		"Helm repository without a scheme": {
			"helmRepositories: [charts.example]",
			[]string{"/helmRepositories/0", noPattern},
		},
		"mirror without a target": {
			"agents: {mirrors: [docker.io]}",
			[]string{"/agents/mirrors/0", noPattern},
		},
		"mirror with a scheme": {
			"agents: {mirrors: ['docker.io=https://mirror.example']}",
			[]string{"/agents/mirrors/0", noPattern},
		},
		"signature policy without rules": {
			"signaturePolicy: {apiVersion: kyma-pull.dev/v1, kind: SignaturePolicy}",
			[]string{"/signaturePolicy", "missing property 'rules'"},
		},
		"signature policy without a namespace for its keys": {
			anyPolicy, []string{"signatureKeysNamespace: is required with signaturePolicy", "from kcp-system"},
		},
		"public keys in the namespace of private keys": {
			anyPolicy + "\nsignatureKeysNamespace: kcp-system",
			[]string{"signatureKeysNamespace: kcp-system is the namespace of this release"},
		},
		"public keys in the namespace of Secrets for runtimes": {
			anyPolicy + "\nsignatureKeysNamespace: shared\nsecretsNamespace: shared",
			[]string{"signatureKeysNamespace: shared is also secretsNamespace"},
		},
		"misspelled field in a signature rule": {
			"signaturePolicy: {apiVersion: kyma-pull.dev/v1, kind: SignaturePolicy, " +
				"rules: [{components: 'a/*', require: true}]}",
			[]string{"/signaturePolicy/rules/0", "'require'", notAllowed},
		},
		"maintenance rules as a string": {
			"maintenancePolicy: {rules: weekend}",
			[]string{"/maintenancePolicy/rules", "got string, want array"},
		},
		"maintenance window with an unknown day": {
			"maintenancePolicy: {default: {days: [Saturday], begin: '02:00:00Z', end: '06:00:00Z'}}",
			[]string{"/maintenancePolicy/default/days/0", noOption},
		},
		"incomplete label selector": {
			"watchLabelSelector: 'region in'",
			[]string{"/watchLabelSelector", noPattern},
		},
		"agent image without a digest": {
			"agents: {image: 'registry.example/agent:1.0.0'}",
			[]string{"/agents/image", noPattern},
		},
		"unknown autonomy": {"agents: {autonomy: Full}", []string{"/agents/autonomy", noOption}},
		"duration in days": {"validity: 2d", []string{"/validity", noPattern}},
		"cache size with an invalid unit": {
			"componentCache: {size: 2GB}",
			[]string{"/componentCache/size", noPattern},
		},
		"existing claim without a cache": {
			"componentCache: {enabled: false, existingClaim: a}",
			[]string{"componentCache.existingClaim: has no effect"},
		},
		"foreign finalizers without RBAC": {
			"rbac: {create: false, foreignFinalizers: true}",
			[]string{"rbac.foreignFinalizers: has no effect"},
		},
		"promotions without RBAC": {
			"rbac: {create: false, promotions: true}",
			[]string{"rbac.promotions: has no effect"},
		},
		"generations ConfigMap without the token service": {
			"tokenService: {generationsConfigMapName: a}",
			[]string{"tokenService.generationsConfigMapName: has no effect"},
		},
		"event URL without a scheme": {"events: {url: hooks.example}", []string{"/events/url", noPattern}},
		"event severity without a URL": {
			"events: {severity: error}",
			[]string{"events.severity: has no effect without events.url"},
		},
		"event headers over plain HTTP": {
			"events: {url: 'http://hooks.example', headersSecretName: a}",
			[]string{"events.headersSecretName: headers are sent over https only"},
		},
		"environment variable that the chart sets": {
			"extraEnv: [{name: POD_UID, value: a}]",
			[]string{"extraEnv: POD_UID is already set"},
		},
		"extra argument for a flag that has a chart value": {
			"extraArgs: [--location=registry.example/other]",
			[]string{"extraArgs: --location is already set by location"},
		},
		"extra argument for a setting that has a chart value": {
			"{git: {url: 'https://git.example/x', pollInterval: 1m}, extraArgs: [--set=git-poll-interval=2m]}",
			[]string{"extraArgs: --set=git-poll-interval is already set by git.pollInterval"},
		},
		"mount without its volume": {
			"extraVolumeMounts: [{name: a, mountPath: /a}]",
			[]string{"extraVolumeMounts: extraVolumes has no volume a"},
		},
		"volume name that the chart uses": {
			"extraVolumes: [{name: keys, emptyDir: {}}]",
			[]string{"extraVolumes: keys is a volume of the chart"},
		},
		"pod label that the chart sets": {
			"podLabels: {app.kubernetes.io/name: a}",
			[]string{"podLabels: app.kubernetes.io/name is a label of the chart"},
		},
		"unknown memory unit": {
			"resources: {limits: {memory: lots}}",
			[]string{"/resources/limits/memory"},
		},
		"spread constraint without a topology key": {
			"topologySpreadConstraints: [{maxSkew: 1, whenUnsatisfiable: ScheduleAnyway}]",
			[]string{"/topologySpreadConstraints/0", "topologyKey"},
		},
		"CIDR instead of a NetworkPolicy peer": {
			"tokenService: {from: [{cidr: 10.0.0.0/8}]}",
			[]string{"/tokenService/from/0", "'cidr'", notAllowed},
		},
	})
}
