package bundle

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestInvalidSettingsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		settings Settings
		want     string // empty for no error
	}{
		"none": {Settings{}, ""},
		"mirrors and fields": {
			Settings{Mirrors: map[string]string{"docker.io": "registry.example:5000/hub", "a.example/b": "c.example"},
				ImagePaths: []ImagePath{{Kind: "Keda", Field: "spec.images.*"}}}, "",
		},
		"a mirror with a scheme": {
			Settings{Mirrors: map[string]string{"docker.io": "https://registry.example"}},
			"settings: mirror of docker.io",
		},
		"two mirrors of one registry": {
			Settings{Mirrors: map[string]string{"docker.io": "a.example", "index.docker.io": "b.example"}},
			"both names refer to docker.io",
		},
		"a mirror without a source": {
			Settings{Mirrors: map[string]string{"": "registry.example"}}, "settings: mirror of",
		},
		"a field without a kind": {Settings{ImagePaths: []ImagePath{{Field: "a"}}}, "kind is required"},
		"a field with an empty step": {
			Settings{ImagePaths: []ImagePath{{Kind: "A", Field: "a..b"}}}, `image path of A: field "a..b"`,
		},
		"a field with an index": {
			Settings{ImagePaths: []ImagePath{{Kind: "A", Field: "a[0]"}}}, `field "a[0]"`,
		},
		"a field with too many steps": {
			Settings{ImagePaths: []ImagePath{{Kind: "A", Field: strings.Repeat("a.", 16) + "b"}}},
			": 17 steps, at most 16",
		},
		"an agent by digest": {
			Settings{Agent: "registry.example:5000/agent:1.2@sha256:" + strings.Repeat("a", 64)}, "",
		},
		"an agent by tag": {
			Settings{Agent: "registry.example/agent:1.2"},
			`agent image "registry.example/agent:1.2": want HOST/PATH@sha256:`,
		},
		"an agent without a repository": {
			Settings{Agent: "@sha256:" + strings.Repeat("a", 64)}, "settings: agent image",
		},
		"a pull Secret": {Settings{ImagePullSecret: "registry-credentials"}, ""},
		"a next location": {
			Settings{NextRegistry: &NextRegistry{Location: "registry.example:5000/fleet"}}, "",
		},
		"an empty next registry": {
			Settings{NextRegistry: &NextRegistry{}}, "settings: next registry: want a location, a CA, or both",
		},
		"a next location with a scheme": {
			Settings{NextRegistry: &NextRegistry{Location: "oci://registry.example/fleet"}},
			"settings: next registry: location",
		},
		"a folder as the next location": {
			Settings{NextRegistry: &NextRegistry{Location: "oci-layout:fleet"}}, "want HOST.DOMAIN/PATH",
		},
		"a next location without a host": {
			Settings{NextRegistry: &NextRegistry{Location: "fleet"}}, "want HOST.DOMAIN/PATH",
		},
		"a next location with a tag": {
			Settings{NextRegistry: &NextRegistry{Location: "registry.example/fleet:1"}}, "want HOST.DOMAIN/PATH",
		},
		"a next CA that is a key": {
			Settings{NextRegistry: &NextRegistry{CA: "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"}},
			`CA: block 1 is a "PRIVATE KEY": want a CERTIFICATE`,
		},
		"a next CA that is no certificate": {
			Settings{NextRegistry: &NextRegistry{CA: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}},
			"CA: certificate 1: ",
		},
		"a next CA that is no PEM": {Settings{NextRegistry: &NextRegistry{CA: "hello"}}, "want certificates in PEM"},
		"a next CA that is too large": {
			Settings{NextRegistry: &NextRegistry{CA: strings.Repeat("x", MaxCABytes+1)}},
			"CA: 65537 bytes, at most 65536",
		},
		"a Secret of the agent's": {
			Settings{ImagePullSecret: "skr-agent-key"},
			"settings: image pull secret kyma-system/skr-agent-key: the name is reserved for the agent",
		},
		"labels of Kyma": {
			Settings{NamespaceLabels: map[string]string{"istio-injection": "enabled",
				"namespaces.warden.kyma-project.io/validate": "enabled"}}, "",
		},
		"a label of a policy": {
			Settings{NamespaceLabels: map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}},
			`settings: namespace label "pod-security.kubernetes.io/enforce": want one of istio-injection`,
		},
		"a label of two words": {
			Settings{NamespaceLabels: map[string]string{"istio-injection": "a b"}},
			`namespace label istio-injection: "a b" is not a valid label value`,
		},
		"a Secret without a name":       {Settings{ImagePullSecret: "a/b"}, "settings: image pull secret"},
		"more image paths than allowed": {Settings{ImagePaths: make([]ImagePath, 101)}, "at most 100 and 100"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.settings.Check()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	steps, err := ImagePath{Field: "spec.parts[*].image"}.Steps()
	if err != nil || !slices.Equal(steps, []string{"spec", "parts", "*", "image"}) {
		t.Errorf("steps are %v, %v", steps, err)
	}
}

func TestParseMirrors(t *testing.T) {
	for name, c := range map[string]struct {
		flags   []string
		want    map[string]string
		message string
	}{
		"none": {nil, nil, ""},
		"two": {
			[]string{"docker.io=registry.example/hub", "ghcr.io/a=b.example"},
			map[string]string{"docker.io": "registry.example/hub", "ghcr.io/a": "b.example"}, "",
		},
		"slashes at the end": {
			[]string{"docker.io/=registry.example/hub/"}, map[string]string{"docker.io": "registry.example/hub"}, "",
		},
		"no target":    {[]string{"docker.io"}, nil, "want FROM=TO"},
		"only a slash": {[]string{"/=registry.example"}, nil, "want FROM=TO"},
		"a scheme":     {[]string{"https://docker.io=registry.example"}, nil, "without schemes"},
		"twice":        {[]string{"a.example=b", "a.example=c"}, nil, "a.example already has a mirror"},
		"twice, by another name": {
			[]string{"docker.io=b", "index.docker.io=c"}, nil, "docker.io already has a mirror",
		},
		"twice, once with a slash":  {[]string{"a.example=b", "a.example/=c"}, nil, "a.example already has a mirror"},
		"a name that no server has": {[]string{"docker.io=Registry Example"}, nil, "want HOST or HOST/PATH"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseMirrors(c.flags)
			if c.message == "" && (err != nil || !maps.Equal(got, c.want)) {
				t.Errorf("got %v, %v", got, err)
			}
			if c.message != "" && (err == nil || !strings.Contains(err.Error(), c.message)) {
				t.Errorf("got %v, want an error with %q", err, c.message)
			}
		})
	}
}
