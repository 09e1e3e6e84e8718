package scenario

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

func TestOperatorRunsChecksInOneRuntime(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{})
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	must(t, f.CreatePolicy(ctx, "scaler", stages(func(canaries, _ *v1alpha1.Wave) {
		canaries.Checks = []v1alpha1.Check{
			{Name: "deployed", CEL: &v1alpha1.CELCheck{
				APIVersion: "apps/v1", Kind: "Deployment", Namespace: v1beta2.RuntimeNamespace,
				Expression: "size(objects) == 1",
			}},
			{
				Name: "many",
				CEL:  &v1alpha1.CELCheck{APIVersion: "apps/v1", Kind: "Deployment", Expression: "size(objects) > 100"},
			},
			{Name: "shipped"},
		}
	})))
	command := []string{"rollout", "check", "one", "scaler", "--location", f.Location()}
	before, err := r.Record(ctx)
	must(t, err)

	text, err := f.Ask(ctx, append(command, "--check", "deployed")...)
	if err != nil || !strings.Contains(text, "module scaler 1.7.0 in runtime one") ||
		!strings.Contains(text, "Passed") {
		t.Fatalf("run of a passing check: got error %v and output\n%s", err, text)
	}
	s := newPlainShell(t, f.Dir, f.Binaries(), "RUNTIME", "one", "MODULE", "scaler",
		"registry.example/fleet", f.Location())
	s.env = append(s.env, "KUBECONFIG="+f.ControlKubeconfig())
	text, err = s.try(blocksOf(t, "docs/guides/checks.md", 1)[0])
	if err == nil || !strings.Contains(text, "runtime one: many is Failed, shipped is Inconclusive") ||
		!strings.Contains(text, `the module ships no check with this name`) {
		t.Errorf("run of failing checks: got error %v and output\n%s", err, text)
	}
	text, err = f.Ask(ctx, append(command, "--last")...)
	if err == nil || !strings.Contains(text, "many is Failed") {
		t.Errorf("last result: got error %v and output\n%s", err, text)
	}
	file := filepath.Join(t.TempDir(), "report.json")
	export := []string{"export-report", "--location", f.Location(), "--runtime", "one", "-o", file}
	if out, code := fleet.Run(ctx, f.Binaries().Agent, export...); code != 0 {
		t.Fatalf("export-report: %s", out)
	}
	if text, err = f.Ask(ctx, "rollout", "check", "one", "scaler", "--last", "--file", file); !strings.Contains(text,
		"many is Failed") {
		t.Errorf("result from an imported report: got error %v and output\n%s", err, text)
	}
	if text, err = f.Ask(ctx, "rollout", "check", "one", "nats", "--location", f.Location()); err == nil ||
		!strings.Contains(text, "has no module nats") {
		t.Errorf("result of a module that the report lacks: got error %v and output\n%s", err, text)
	}

	// The command removes its request at the end, which publishes another bundle.
	must(t, r.UntilState(ctx, "scaler", "1.7.0", v1beta2.StateReady))
	after, err := r.Record(ctx)
	must(t, err)
	if _, stays := after.Annotations[v1beta2.AnnotationCheckRun]; stays {
		t.Error("the request is not removed from the Kyma")
	}
	if len(before.Status.Modules) != 1 || len(after.Status.Modules) != 1 ||
		after.Status.Modules[0].Version != "1.7.0" ||
		after.Status.Modules[0].State != v1beta2.StateReady {
		t.Errorf("the run changed the modules from %+v to %+v", before.Status.Modules, after.Status.Modules)
	}
}
