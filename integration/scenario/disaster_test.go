package scenario

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/guides"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// guide returns a guide's shell blocks by block name.
func guide(t *testing.T, page string) map[string][]guides.Block {
	t.Helper()
	all, err := guides.Read(filepath.Join(checkout, "docs", "guides", page))
	must(t, err)
	blocks := map[string][]guides.Block{}
	for _, block := range all {
		blocks[block.Name] = append(blocks[block.Name], block)
	}
	return blocks
}

// createDeployment creates a Deployment in place of a program that runs as a process, so that the guide's kubectl
// commands work.
func createDeployment(t *testing.T, where client.Client, namespace, name string) {
	t.Helper()
	labels := map[string]string{"app": name}
	must(t, where.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DeploymentSpec{Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
					Containers: []corev1.Container{{Name: "program", Image: "program"}},
				},
			}},
	}))
}

// disaster is a fleet that follows a Git repository. The publisher's keys are in a Secret in the control plane.
type disaster struct {
	t      *testing.T
	f      *fleet.Fleet
	r      *fleet.Runtime
	s      shell
	blocks map[string][]guides.Block
	ran    []string
	// mounted is the folder from which the publisher reads its keys. It has the content of Secret fleet-keys.
	mounted string
}

// mount writes the content of Secret fleet-keys to the publisher's folder, as the kubelet would.
func (d *disaster) mount() {
	d.t.Helper()
	var secret corev1.Secret
	must(d.t,
		d.f.Control.Get(d.t.Context(), client.ObjectKey{Namespace: sample.Namespace, Name: "fleet-keys"}, &secret))
	old, err := filepath.Glob(filepath.Join(d.mounted, "*"))
	must(d.t, err)
	for name, data := range secret.Data {
		path := filepath.Join(d.mounted, name)
		must(d.t, os.WriteFile(path+".next", data, 0o600))
		must(d.t, os.Rename(path+".next", path))
		old = slices.DeleteFunc(old, func(o string) bool { return o == path })
	}
	for _, gone := range old {
		must(d.t, os.Remove(gone))
	}
}

// recover runs the given blocks in a section of the guide. Without blocks, it runs the whole section. After each change
// of Secret fleet-keys, recover updates the publisher's folder.
func (d *disaster) recover(name string, steps ...guides.Block) {
	d.t.Helper()
	if len(steps) == 0 {
		steps = d.blocks[name]
	}
	if len(steps) == 0 {
		d.t.Fatalf("docs/guides/disaster-recovery.md has no commands for %s", name)
	}
	d.ran = append(d.ran, name)
	for _, step := range steps {
		if step.Check {
			checkStep(d.t, d.s, step)
			continue
		}
		d.s.run(step.Script)
		if strings.Contains(step.Script, "secret generic fleet-keys") {
			d.mount()
		}
	}
}

// keysBlock returns the block that restores the publisher's keys.
func (d *disaster) keysBlock() guides.Block { return d.blocks["kcp-restored"][0] }

func kymaForStage(id, stage string, modules ...string) string {
	return strings.Replace(kymaOf(id, modules...), "labels: {", "labels: {stage: "+stage+", ", 1)
}

const carefulPolicy = `apiVersion: fleet.kyma-project.io/v1alpha1
kind: RolloutPolicy
metadata: {name: careful}
spec:
  modules: [scaler]
  waves:
  - {name: canaries, selector: {matchLabels: {stage: canary}}}
  - {name: others, percent: 100, approval: true}
`

// The test causes each loss in docs/guides/disaster-recovery.md, one after the other, and recovers with the guide's
// commands. During all of this, a rollout waits for approval.
func TestDisasterRecoveryGuideWorks(t *testing.T) {
	suite.Long(t) // the short suite runs TestRestartedPublisherAdoptsPushedBundle and TestNewEpochSupersedesForgedSequences
	ctx, repo := t.Context(), newRepository(t)
	files := catalogOf(t)
	files["fleet/careful.yaml"] = carefulPolicy
	files["fleet/kymas/berlin.yaml"] = kymaForStage("berlin", "canary", "scaler")
	files["fleet/kymas/munich.yaml"] = kymaForStage("munich", "production", "scaler")
	first := repo.push(files)
	f := startFollowing(t,
		append(repo.flags(), "--set", "keys-poll-interval=500ms", "--set", "registry-check-interval=1s"))
	d := &disaster{t: t, f: f, blocks: guide(t, "disaster-recovery.md"), mounted: filepath.Join(f.Dir, "mounted"),
		s: newShell(t, f.Dir, f.Binaries(), "registry.example/fleet", f.Location(), "--timeout=2m", "--timeout=15s")}
	t.Cleanup(func() {
		if t.Failed() {
			var kymas v1beta2.KymaList
			err := f.Control.List(context.Background(), &kymas)
			t.Log(document(t, kymas.Items), err)
		}
	})
	must(t, os.Mkdir(d.mounted, 0o700))
	d.s.run(d.keysBlock().Script)
	d.mount()
	flags := func(more ...string) []string {
		return slices.Concat(repo.flags(),
			[]string{"--set", "git-poll-interval=500ms", "--set", "keys-poll-interval=500ms", "--set",
				"registry-check-interval=1s", "--keys", d.mounted}, more)
	}
	must(t, f.RestartPublisher(flags()...))
	// Wait for the commit. Otherwise, AddRuntime would create the Kyma without modules.
	untilCommit(t, f, first)
	var err error
	d.r, err = f.AddRuntime(ctx, "berlin", "regular")
	must(t, err)
	createDeployment(t, d.r.API, v1beta2.RuntimeNamespace, "skr-agent")
	must(t, d.r.UntilState(ctx, "scaler", "1.7.0", v1beta2.StateReady))
	munich, err := f.Simulate(ctx, fleet.NewKyma("munich", "regular"))
	must(t, err)
	untilSettled(t, munich, "1.7.0")

	backup := filepath.Join(f.Dir, "backup")
	must(t, f.BackUpControlPlane(backup))
	d.afterTheBackup(repo, files)
	must(t, f.Publisher().Stop())
	must(t, f.RestoreControlPlane(backup))
	d.mount()
	must(t, f.StartPublisher())
	until(t, time.Minute, "the publisher reports that the keys are outdated", func() (bool, string) {
		ready := conditionOf(t, d.r, v1beta2.ConditionReady)
		return strings.Contains(ready.Message, "is newer"), ready.Message
	})
	d.recover("kcp-restored")
	d.checkRolloutUnchanged(munich)

	must(t, f.Publisher().Stop())
	must(t, f.ReplaceControlPlane(ctx))
	d.promote(repo, files, "1.8.0", "1.7.0")
	steps := d.blocks["kcp-lost"]
	d.recover("kcp-lost", steps[0])
	must(t, f.StartPublisher())
	d.recover("kcp-lost", steps[1:]...)
	// The restored channel has an older version than the runtime.
	must(t, d.r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateWarning))
	untilSettled(t, munich, "1.7.0")
	d.promote(repo, files, "1.7.0", "1.8.0")
	d.checkRolloutUnchanged(munich)

	t.Log("The rollout continues.")
	rollout := d.untilWaiting()
	d.s.run("kcp-publisher rollout approve " + rollout + " others --kubeconfig kcp.kubeconfig")
	untilSettled(t, munich, "1.8.0")
	wantHistory(t, munich, "1.7.0", "1.8.0")

	for _, name := range []string{"publisher.key", "enrol.key"} {
		must(t, os.Remove(filepath.Join(f.Keys(), name)))
	}
	d.recover("publisher-keys-lost")

	must(t, d.r.Recreate(ctx))
	steps = d.blocks["cluster-recreated"]
	d.recover("cluster-recreated", steps[0])
	createDeployment(t, d.r.API, v1beta2.RuntimeNamespace, "skr-agent")
	must(t, d.r.StartAgent())
	d.recover("cluster-recreated", steps[1:]...)
	must(t, d.r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
	must(t, d.r.UntilState(ctx, "mailer", "1.0.0", v1beta2.StateReady))

	d.recoverLostRoot(flags)
	if want := []string{"cluster-recreated", "kcp-lost", "kcp-restored", "publisher-keys-lost",
		"root-keys-lost"}; !slices.Equal(slices.Compact(slices.Sorted(slices.Values(d.ran))), want) {
		t.Errorf("ran sections %v, want %v", d.ran, want)
	}
	if len(d.blocks) != 6 { // recoverRegistry runs section registry-lost in another test
		t.Errorf("the guide has commands for %d disasters, want 6", len(d.blocks))
	}
}

// afterTheBackup makes changes that the backup does not contain: new keys for the publisher and the agent, a promotion,
// another module, and another runtime.
func (d *disaster) afterTheBackup(repo *repository, files map[string]string) {
	t, ctx := d.t, d.t.Context()
	t.Helper()
	d.s.run("kcp-publisher keys rotate publisher --drop-old --keys keys")
	d.s.run(d.keysBlock().Script)
	d.mount()
	untilRoot(t, d.r, 2)
	before := agentKey(t, d.r)
	d.s.run(
		"kcp-publisher revoke berlin --kubeconfig kcp.kubeconfig && kubectl --kubeconfig berlin.kubeconfig -n " +
			"kyma-system delete secret skr-agent-key")
	must(t, d.r.Enroll(ctx))
	must(t, d.r.Agent().Stop())
	must(t, d.r.StartAgent())
	until(t, time.Minute, "the agent has a new key", func() (bool, string) {
		key := agentKey(t, d.r)
		return key != before, key
	})
	must(t, d.r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
		spec.Modules = append(spec.Modules, managed("mailer"))
	}))
	must(t, d.r.UntilState(ctx, "mailer", "1.0.0", v1beta2.StateReady))
	files["fleet/kymas/oslo.yaml"] = kymaForStage("oslo", "production", "mailer")
	untilCommit(t, d.f, d.promote(repo, files, "1.7.0", "1.8.0"))
	_, err := d.f.Simulate(ctx, fleet.NewKyma("oslo", "regular"))
	must(t, err)
	must(t, d.r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
	d.untilWaiting()
}

// promote commits another scaler version for the channel and returns the commit.
func (d *disaster) promote(repo *repository, files map[string]string, from, to string) (commit string) {
	d.t.Helper()
	const channel = "regular, version: "
	files["fleet/releases/scaler.yaml"] = strings.Replace(files["fleet/releases/scaler.yaml"], channel+from, channel+to,
		1)
	return repo.push(files)
}

// untilWaiting waits until scaler's rollout waits for approval of its second wave, and returns its name.
func (d *disaster) untilWaiting() (name string) {
	d.t.Helper()
	until(d.t, time.Minute, "the rollout waits for approval", func() (bool, string) {
		output, err := d.s.try(
			"kubectl --kubeconfig kcp.kubeconfig -n kcp-system get rollouts -o jsonpath='{range " +
				".items[*]}{.metadata.name} {.status.state} {.spec.from} {.spec.to}{\"\\n\"}{end}'")
		name, _, _ = strings.Cut(output, " ")
		return err == nil && strings.HasSuffix(strings.TrimSpace(output), " Waiting 1.7.0 1.8.0"),
			fmt.Sprint(output, err)
	})
	return name
}

// checkRolloutUnchanged checks that the rollout is still in its first wave: only berlin has the new version.
func (d *disaster) checkRolloutUnchanged(munich *fleet.Simulated) {
	t, ctx := d.t, d.t.Context()
	t.Helper()
	must(t, d.r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
	must(t, d.r.UntilState(ctx, "mailer", "1.0.0", v1beta2.StateReady))
	d.untilWaiting()
	untilQuiet(t, d.f)
	untilSettled(t, munich, "1.7.0")
	wantHistory(t, munich, "1.7.0")
	var oslo v1beta2.Kyma
	must(t, d.f.Control.Get(ctx, client.ObjectKey{Namespace: sample.Namespace, Name: "oslo"}, &oslo))
}

// recoverLostRoot follows the guide's section on lost root keys, which starts a new root of trust at a new location.
func (d *disaster) recoverLostRoot(flags func(...string) []string) {
	t := d.t
	t.Helper()
	must(t, os.Remove(filepath.Join(d.f.Keys(), "root.key")))
	if output := d.s.run("kcp-publisher keys rotate publisher --keys keys"); !strings.Contains(output, "of at least") {
		t.Errorf("unexpected output without root keys:\n%s", output)
	}
	steps := d.blocks["root-keys-lost"]
	d.recover("root-keys-lost", steps[0])
	must(t, d.f.RestartPublisher(flags("--location", d.f.Location()+"-2")...))
	d.recover("root-keys-lost", steps[1:]...)
	until(t, time.Minute, "berlin accepts a bundle of the new root", func() (bool, string) {
		statement, err := inForce(t, d.r)
		return err == nil && statement.Predicate.Epoch == 2, fmt.Sprint(err, statement.Predicate.Epoch)
	})
	must(t, d.r.UntilState(t.Context(), "scaler", "1.8.0", v1beta2.StateReady))
}

// recoverRegistry follows the guide's section on a registry that lost its data.
func recoverRegistry(t *testing.T, f *fleet.Fleet, runtime string) {
	t.Helper()
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Log("kubectl is not installed: the guide's commands do not run")
		return
	}
	s := newShell(t, f.Dir, f.Binaries(), "registry.example/fleet", f.Location(), "berlin", runtime)
	for _, step := range guide(t, "disaster-recovery.md")["registry-lost"] {
		checkStep(t, s, step)
	}
}
