package assemble

import (
	"slices"
	"testing"
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
