package bundle

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestInvalidSettingsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		settings Settings
		want     string // empty for no error
	}{
		"empty settings": {Settings{}, ""},
		"negative poll interval": {
			Settings{PollInterval: metav1.Duration{Duration: -time.Second}}, "settings: poll interval -1s: must be at least 0",
		},
		"mirrors and image paths": {
			Settings{Mirrors: map[string]string{"docker.io": "registry.example:5000/hub", "a.example/b": "c.example"},
				ImagePaths: []ImagePath{{Kind: "Keda", Field: "spec.images.*"}}}, "",
		},
		"mirror with a scheme": {
			Settings{Mirrors: map[string]string{"docker.io": "https://registry.example"}},
			"settings: mirror of docker.io",
		},
		"two mirrors of one registry": {
			Settings{Mirrors: map[string]string{"docker.io": "a.example", "index.docker.io": "b.example"}},
			"are names of the same registry docker.io",
		},
		"mirror without a source": {
			Settings{Mirrors: map[string]string{"": "registry.example"}}, "settings: mirror of",
		},
		"image path without a kind": {Settings{ImagePaths: []ImagePath{{Field: "a"}}}, "kind is required"},
		"image path with an empty step": {
			Settings{ImagePaths: []ImagePath{{Kind: "A", Field: "a..b"}}}, `image path of A: field "a..b"`,
		},
		"image path with an index": {
			Settings{ImagePaths: []ImagePath{{Kind: "A", Field: "a[0]"}}}, `field "a[0]"`,
		},
		"image path with too many steps": {
			Settings{ImagePaths: []ImagePath{{Kind: "A", Field: strings.Repeat("a.", 16) + "b"}}},
			": 17 steps, must be at most 16",
		},
		"agent image with a digest": {
			Settings{Agent: "registry.example:5000/agent:1.2@sha256:" + strings.Repeat("a", 64)}, "",
		},
		"agent image with a tag": {
			Settings{Agent: "registry.example/agent:1.2"},
			`agent image "registry.example/agent:1.2": must be HOST/PATH@sha256:`,
		},
		"agent image without a repository": {
			Settings{Agent: "@sha256:" + strings.Repeat("a", 64)}, "settings: agent image",
		},
		"image pull Secret": {Settings{ImagePullSecret: "registry-credentials"}, ""},
		"next registry with a location": {
			Settings{NextRegistry: &NextRegistry{Location: "registry.example:5000/fleet"}}, "",
		},
		"empty next registry": {
			Settings{NextRegistry: &NextRegistry{}}, "settings: next registry: a location or a CA is required",
		},
		"next location with a scheme": {
			Settings{NextRegistry: &NextRegistry{Location: "oci://registry.example/fleet"}},
			"settings: next registry: location",
		},
		"folder as next location": {
			Settings{NextRegistry: &NextRegistry{Location: "oci-layout:fleet"}}, "must be HOST.DOMAIN/PATH",
		},
		"next location without a host": {
			Settings{NextRegistry: &NextRegistry{Location: "fleet"}}, "must be HOST.DOMAIN/PATH",
		},
		"next location with a tag": {
			Settings{NextRegistry: &NextRegistry{Location: "registry.example/fleet:1"}}, "must be HOST.DOMAIN/PATH",
		},
		"private key as next CA": {
			Settings{NextRegistry: &NextRegistry{CA: "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"}},
			`CA: PEM block 1 has type "PRIVATE KEY", must be CERTIFICATE`,
		},
		"next CA with an invalid certificate": {
			Settings{NextRegistry: &NextRegistry{CA: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}},
			"CA: certificate 1: ",
		},
		"next CA that is not PEM": {Settings{NextRegistry: &NextRegistry{CA: "hello"}}, "must be certificates in PEM"},
		"next CA larger than the limit": {
			Settings{NextRegistry: &NextRegistry{CA: strings.Repeat("x", MaxCABytes+1)}},
			"CA: the certificates are 65537 bytes, must be at most 65536",
		},
		"image pull Secret with a reserved name": {
			Settings{ImagePullSecret: "skr-agent-key"},
			"settings: image pull secret kyma-system/skr-agent-key: the name is reserved for the agent",
		},
		"allowed namespace labels": {
			Settings{NamespaceLabels: map[string]string{"istio-injection": "enabled",
				"namespaces.warden.kyma-project.io/validate": "enabled"}}, "",
		},
		"namespace label of a policy": {
			Settings{NamespaceLabels: map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}},
			`settings: namespace label "pod-security.kubernetes.io/enforce": must be one of istio-injection`,
		},
		"invalid label value": {
			Settings{NamespaceLabels: map[string]string{"istio-injection": "a b"}},
			`namespace label istio-injection: "a b" is not a valid label value`,
		},
		"invalid image pull Secret name": {Settings{ImagePullSecret: "a/b"}, "settings: image pull secret"},
		"more image paths than the limit": {
			Settings{ImagePaths: make([]ImagePath, 101)}, "must be at most 100 and 100",
		},
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
		t.Errorf("got steps %v, error %v, want spec, parts, * and image", steps, err)
	}
}

func TestParseMirrorsRefusesInvalidFlags(t *testing.T) {
	for name, c := range map[string]struct {
		flags   []string
		want    map[string]string
		message string
	}{
		"no flags": {nil, nil, ""},
		"two mirrors": {
			[]string{"docker.io=registry.example/hub", "ghcr.io/a=b.example"},
			map[string]string{"docker.io": "registry.example/hub", "ghcr.io/a": "b.example"}, "",
		},
		"trailing slashes": {
			[]string{"docker.io/=registry.example/hub/"}, map[string]string{"docker.io": "registry.example/hub"}, "",
		},
		"mirror without a target":     {[]string{"docker.io"}, nil, "must be FROM=TO"},
		"source that is only a slash": {[]string{"/=registry.example"}, nil, "must be FROM=TO"},
		"source with a scheme":        {[]string{"https://docker.io=registry.example"}, nil, "without schemes"},
		"duplicate source":            {[]string{"a.example=b", "a.example=c"}, nil, "a.example already has a mirror"},
		"duplicate source with another name of Docker Hub": {
			[]string{"docker.io=b", "index.docker.io=c"}, nil, "docker.io already has a mirror",
		},
		"duplicate source with a trailing slash": {
			[]string{"a.example=b", "a.example/=c"}, nil, "a.example already has a mirror",
		},
		"invalid target": {
			[]string{"docker.io=Registry Example"}, nil, "must be HOST or HOST/PATH",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseMirrors(c.flags)
			if c.message == "" && (err != nil || !maps.Equal(got, c.want)) {
				t.Errorf("got mirrors %v, error %v, want %v", got, err, c.want)
			}
			if c.message != "" && (err == nil || !strings.Contains(err.Error(), c.message)) {
				t.Errorf("got %v, want an error with %q", err, c.message)
			}
		})
	}
}
