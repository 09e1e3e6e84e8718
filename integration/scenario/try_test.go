package scenario

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/try"
)

func TestTheSampleModulePassesEveryStepOfATry(t *testing.T) {
	besideOthers(t)
	verdicts, err := try.Run(t.Context(), try.Options{Progress: os.Stderr, Clusters: &clusters})
	must(t, err)
	if printed := verdictsOf(verdicts); !try.Passed(verdicts) || strings.Count(printed, "passed") != 9 {
		t.Errorf("not every step passed:\n%s", printed)
	}
}

// The component comes from an archive and the ModuleTemplates from a folder, as those of a module team do.
func TestATryStopsAtTheCanaryOfAVersionThatNeverGetsReady(t *testing.T) {
	besideOthers(t)
	binaries, err := fleet.Build()
	must(t, err)
	dir := t.TempDir()
	templates, archive := filepath.Join(dir, "templates"), filepath.Join(dir, "archive")
	defaultCR := filepath.Join(dir, "default.yaml")
	// Without a namespace, as Kyma's modules have theirs.
	must(t, os.WriteFile(defaultCR, []byte("apiVersion: sample.example/v1\nkind: Lamp\nmetadata: {name: default}\n"), 0o600))
	for version, simulate := range map[string]string{"1.0.0": "", "1.1.0": "broken"} {
		content := filepath.Join(dir, "lamp-"+version)
		must(t, os.Mkdir(content, 0o700))
		must(t, os.WriteFile(filepath.Join(content, "all.yaml"), fmt.Appendf(nil, lamp, version, simulate), 0o600))
	}
	tutorial := blocksOf(t, "docs/tutorials/try-a-module.md", 4)
	must(t, os.Symlink(filepath.Dir(binaries.Publisher), filepath.Join(dir, "bin")))
	newPlainShell(t, dir, binaries, "--module-template", "--default-cr "+defaultCR+" --module-template").run(tutorial[1])
	tried := newPlainShell(t, checkout, binaries).run("make --no-print-directory --dry-run --old-file=build --old-file=assets " + strings.TrimPrefix(strings.TrimSpace(tutorial[2]), "make "))
	if want := "--component 'sample.example/module/lamp' --from '1.0.0' --to '1.1.0' "; !strings.Contains(tried, want) || !strings.Contains(tried, "--components 'ctf:archive' --templates 'templates'") {
		t.Errorf("the tutorial tries something else:\n%s", tried)
	}
	verdicts, err := try.Run(t.Context(), try.Options{
		Component: "sample.example/module/lamp", From: "1.0.0", To: "1.1.0", Components: []string{"ctf:" + archive}, Templates: []string{templates},
		ReadyWithin: 45 * time.Second, Progress: os.Stderr, Clusters: &clusters,
	})
	must(t, err)
	printed := verdictsOf(verdicts)
	var results []string
	for _, v := range verdicts {
		results = append(results, v.Result())
	}
	if want := "passed passed failed not run not run not run not run not run not run"; strings.Join(results, " ") != want {
		t.Fatalf("want %s:\n%s", want, printed)
	}
	for _, part := range []string{
		"rollout lamp-regular-1 is RolledBack, 1 of 2 runtimes went back", "canary, wave canary: ", "Deployment kyma-system/lamp",
		"both runtimes are Ready in 1.0.0", "why other: ", "version 1.1.0 goes to no further runtime",
	} {
		if !strings.Contains(printed, part) {
			t.Errorf("it does not say %q:\n%s", part, printed)
		}
	}
}

func verdictsOf(verdicts []try.Verdict) string {
	var out bytes.Buffer
	try.Print(&out, verdicts)
	return out.String()
}

const lamp = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lamps.sample.example}
spec:
  group: sample.example
  names: {kind: Lamp, listKind: LampList, plural: lamps, singular: lamp}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: lamp-settings, namespace: kyma-system}
data: {version: "%[1]s"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: lamp, namespace: kyma-system, annotations: {kyma-pull.dev/simulate: "%[2]s"}}
spec:
  replicas: 1
  selector: {matchLabels: {app: lamp}}
  template:
    metadata: {labels: {app: lamp}}
    spec:
      containers:
      - {name: lamp, image: "example.org/lamp:%[1]s"}
`
