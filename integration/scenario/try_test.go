package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/try"
)

func TestSampleModulePassesTrial(t *testing.T) {
	suite.Long(t)
	runInQueue(t)
	verdicts, err := try.Run(t.Context(), try.Options{Progress: os.Stderr, Clusters: &clusters})
	must(t, err)
	if printed := verdictsOf(verdicts); !try.Passed(verdicts) || strings.Count(printed, "passed") != 9 {
		t.Errorf("not every step passed:\n%s", printed)
	}
}

// The test runs the tutorial's commands with two versions of Kyma's keda module. The newer version omits an object from
// the older version, requires downtime, and has a default CR.
func TestKedaModulePassesTrial(t *testing.T) {
	suite.Long(t)
	if _, err := os.Stat(realworld); err != nil {
		t.Skip("shared/realworld, which has releases of Kyma's keda, does not exist next to this checkout")
	}
	runInQueue(t)
	binaries, err := fleet.Build()
	must(t, err)
	options := triedBy(t, binaries, blocksOf(t, tryTutorial, tryBlocks)[3])
	options.Progress, options.Clusters = os.Stderr, &clusters

	dir := t.TempDir()
	for i, path := range []*string{&options.Components[0], &options.Templates[0]} {
		*path = filepath.Join(dir, *path)
		for _, version := range []string{options.From, options.To} {
			var err error
			if i == 0 {
				err = os.CopyFS(filepath.Join(*path, "keda-"+version),
					os.DirFS(filepath.Join(realworld, "ctf", "keda-"+version)))
			} else {
				err = copyFile(filepath.Join(*path, version+".yaml"),
					filepath.Join(realworld, "catalog", "moduletemplate-keda-"+version+".yaml"))
			}
			must(t, err)
		}
	}
	verdicts, err := try.Run(t.Context(), options)
	must(t, err)
	if printed := verdictsOf(verdicts); !try.Passed(verdicts) || strings.Count(printed, "passed") != 9 {
		t.Errorf("not every step passed:\n%s", printed)
	}
}

func copyFile(to, from string) error {
	data, err := os.ReadFile(from)
	return errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, data, 0o600))
}

// triedBy returns the options that the make command in a shell block passes to the trial.
func triedBy(t *testing.T, binaries fleet.Binaries, block string) try.Options {
	t.Helper()
	recipe := newPlainShell(t, checkout, binaries).
		run("make --no-print-directory --dry-run --old-file=build --old-file=assets " +
			strings.TrimPrefix(strings.TrimSpace(block), "make "))
	_, line, found := strings.Cut(recipe, "integration/try/cmd ")
	line, _, _ = strings.Cut(line, ";")
	if !found {
		t.Fatalf("%s does not run kcp-publisher try:\n%s", block, recipe)
	}
	var options try.Options
	flags := pflag.NewFlagSet("try", pflag.ContinueOnError)
	options.AddFlags(flags)
	must(t, flags.Parse(strings.Fields(strings.NewReplacer("'", "", "\\", "").Replace(line))))
	return options
}

const (
	tryTutorial = "docs/tutorials/try-a-module.md"
	tryBlocks   = 6
)

// Like a module team, the test uses a component in an archive and ModuleTemplates in a folder.
func TestTrialStopsIfCanaryNeverBecomesReady(t *testing.T) {
	suite.Long(t)
	runInQueue(t)
	binaries, err := fleet.Build()
	must(t, err)
	dir := t.TempDir()
	tutorial := blocksOf(t, tryTutorial, tryBlocks)
	offerLamp(t, binaries, dir, tutorial[1], map[string]string{"1.0.0": "", "1.1.0": "broken"})
	options := triedBy(t, binaries, tutorial[2])
	options.Components[0], options.Templates[0] = "ctf:"+filepath.Join(dir, "archive"),
		filepath.Join(dir, options.Templates[0])
	options.ReadyWithin, options.Progress, options.Clusters = 45*time.Second, os.Stderr, &clusters
	verdicts, err := try.Run(t.Context(), options)
	must(t, err)
	printed := verdictsOf(verdicts)
	var results []string
	for _, v := range verdicts {
		results = append(results, v.Result())
	}
	if want := "passed passed failed not run not run not run not run not run not run"; strings.Join(results,
		" ") != want {
		t.Fatalf("want the verdicts %q, got\n%s", want, printed)
	}
	for _, part := range []string{
		"rollout lamp-regular-1 is RolledBack, 1 of 2 runtimes rolled back", "canary, wave canary: ",
		"Deployment kyma-system/lamp",
		"both runtimes are Ready with 1.0.0", "why other: ", "no more runtimes get version 1.1.0",
	} {
		if !strings.Contains(printed, part) {
			t.Errorf("output does not contain %q:\n%s", part, printed)
		}
	}
}

// offerLamp runs the tutorial's command, which creates an archive and ModuleTemplates for each version of module lamp.
// The map simulate contains the kyma-pull.dev/simulate annotation of the Deployment, by version.
func offerLamp(t *testing.T, binaries fleet.Binaries, dir, command string, simulate map[string]string) {
	t.Helper()
	defaultCR := filepath.Join(dir, "default.yaml")
	// The default CR has no namespace, as in Kyma's modules.
	must(t, os.WriteFile(defaultCR, []byte("apiVersion: sample.example/v1\nkind: Lamp\nmetadata: {name: default}\n"),
		0o600))
	for version, state := range simulate {
		content := filepath.Join(dir, "lamp-"+version)
		must(t, os.Mkdir(content, 0o700))
		must(t, os.WriteFile(filepath.Join(content, "all.yaml"), fmt.Appendf(nil, lamp, version, state), 0o600))
	}
	must(t, os.Symlink(filepath.Dir(binaries.Publisher), filepath.Join(dir, "bin")))
	newPlainShell(t, dir, binaries, "--module-template", "--default-cr "+defaultCR+" --module-template").run(command)
}

// The tutorial's test runs in its own Go module, as for a module team.
func TestModuleTeamRunsTrialFromItsOwnGoModule(t *testing.T) {
	suite.Long(t)
	runInQueue(t)
	binaries, err := fleet.Build()
	must(t, err)
	page, err := os.ReadFile(filepath.Join(checkout, tryTutorial))
	must(t, err)
	_, block, found := strings.Cut(string(page), "```go\n")
	block, _, _ = strings.Cut(block, "```")
	if !found {
		t.Fatal("the tutorial has no Go test")
	}
	root, err := filepath.Abs(checkout)
	must(t, err)
	dir, tutorial := t.TempDir(), blocksOf(t, tryTutorial, tryBlocks)
	offerLamp(t, binaries, dir, tutorial[1], map[string]string{"1.0.0": "", "1.1.0": ""})
	test := "package lamp\n\nimport (\n\t\"testing\"\n\n\t\"github.com/kyma-pull/kyma-pull/integration/try\"\n)\n\n" +
		block
	must(t, os.WriteFile(filepath.Join(dir, "lamp_test.go"), []byte(test), 0o600))
	s := newPlainShell(t, dir, binaries, "$HOME/kyma-pull/bin", filepath.Dir(binaries.Publisher), "$HOME/kyma-pull",
		root, "~/kyma-pull", root, "go test", "go test -v -vet=off")
	output := s.run("go mod init sample.example/lamp\n" + tutorial[5])
	if passed := strings.Count(output, "    --- PASS: TestUpgrade/"); passed != 9 {
		t.Errorf("%d steps passed, want 9:\n%s", passed, output)
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
