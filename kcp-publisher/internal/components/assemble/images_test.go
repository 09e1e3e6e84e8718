package assemble

import (
	"crypto/rand"
	"crypto/rsa"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/component"
)

func TestOnlyImagesThatAgentsUseAreListed(t *testing.T) {
	deployment := `apiVersion: apps/v1
kind: Deployment
metadata: {name: mailer}
spec: {template: {spec: {containers: [{name: mailer, image: "mail.example/mailer:1.0.0"}]}}}
`
	for name, c := range map[string]struct {
		manifest string
		want     []string
	}{
		"policy with a pattern": {
			deployment + `---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: tags}
spec: {rules: [{validate: {pattern: {spec: {containers: [{image: "*:*"}]}}}}]}
`, []string{"mail.example/mailer:1.0.0"},
		},
		"workflow with a parameter": {
			deployment + `---
apiVersion: argoproj.io/v1alpha1
kind: WorkflowTemplate
metadata: {name: send}
spec: {templates: [{initContainers: [{image: "{{inputs.parameters.image}}"}]}]}
`, []string{"mail.example/mailer:1.0.0"},
		},
		"image volume": {
			`apiVersion: v1
kind: Pod
metadata: {name: mailer}
spec:
  containers: [{name: mailer, image: "mail.example/mailer:1.0.0"}]
  volumes: [{name: texts, image: {reference: "mail.example/texts:2.0.0"}}]
`, []string{"mail.example/mailer:1.0.0", "mail.example/texts:2.0.0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			files, err := Read(folder(t, map[string]string{"a.yaml": c.manifest}))
			if err != nil {
				t.Fatal(err)
			}
			checked, err := files.Check(t.Context(), "mailer", inProcess)
			if err != nil || !slices.Equal(checked.Images, c.want) {
				t.Fatalf("got images %v and error %v, want %v", checked.Images, err, c.want)
			}
			made, err := New("example.org/mailer", "1.0.0", "example.org", files, checked.Images, nil)
			if err != nil {
				t.Fatal(err)
			}
			if unpinned := made.UnpinnedImages(); !slices.Equal(unpinned, c.want) {
				t.Errorf("got image resources %v, want %v", unpinned, c.want)
			}
		})
	}
}

// Signatures do not cover locations, so agents use a listed image only if its resource has the image's name and tag.
func TestSignedComponentsLoseNoDigest(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	some := digest.FromString("some image")
	pin := "@" + some.String()
	pod := func(image string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: mailer}\n" +
			"spec: {containers: [{name: mailer, image: \"" + image + "\"}]}\n"
	}
	for name, c := range map[string]struct {
		image, listed string
		signed, used  bool
	}{
		"version as the tag":             {"mail.example/mailer:v1.2", "", true, true},
		"version and a digest":           {"mail.example/mailer:1.0.0" + pin, "", true, true},
		"tag that is not a version":      {"mail.example/curl:latest", "", false, false},
		"image without a tag":            {"mail.example/curl", "", false, false},
		"tag with an underscore":         {"mail.example/tool:v20260101_ab", "", false, false},
		"digest in the content":          {"mail.example/curl:latest" + pin, "", true, false},
		"digest without a tag":           {"mail.example/curl" + pin, "", true, false},
		"digest only in the flag":        {"mail.example/curl:latest", "mail.example/curl:latest" + pin, false, false},
		"other image only in the flag":   {"mail.example/mailer:1.0.0" + pin, "mail.example/curl:latest", false, false},
		"other version only in the flag": {"mail.example/mailer:1.0.0" + pin, "mail.example/curl:8.0.0", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			files, err := Read(folder(t, map[string]string{"a.yaml": pod(c.image)}))
			if err != nil {
				t.Fatal(err)
			}
			checked, err := files.Check(t.Context(), "mailer", inProcess)
			if err != nil {
				t.Fatal(err)
			}
			listed := checked.Images
			if c.listed != "" {
				listed = PreferPinned(append(listed, c.listed))
			}
			digests := map[string]digest.Digest{c.image: some, c.listed: some} // as in the registry
			made, err := New("example.org/mailer", "1.0.0", "example.org", files, listed, digests)
			if err != nil {
				t.Fatal(err)
			}
			err = made.Sign("release", key, checked.Objects)
			if (err == nil) != c.signed || err != nil && !strings.Contains(err.Error(), "is not a version") {
				t.Errorf("sign: got error %v, want success %v", err, c.signed)
			}
			used := component.Images([]component.Component{{Descriptor: made.Descriptor}}, true)
			if isUsed := len(used) == len(listed); isUsed != c.used {
				t.Errorf("got images %v of %v", used, listed)
			}
		})
	}
}
