package scenario

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
	"github.com/kyma-pull/kyma-pull/internal/cli/clitest"
)

// blocksOf returns a page's shell blocks, and fails the test unless their number is want.
func blocksOf(t *testing.T, page string, want int) (scripts []string) {
	t.Helper()
	for _, b := range clitest.Shell(t, checkout) {
		if b.Page == page {
			scripts = append(scripts, b.Script)
		}
	}
	if len(scripts) != want {
		t.Fatalf("%s has %d shell blocks, but the test runs %d", page, len(scripts), want)
	}
	return scripts
}

// wordsOf splits the only command in a script into words and replaces names in it.
func wordsOf(t *testing.T, script string, replaced ...string) []string {
	t.Helper()
	calls := clitest.Block{Script: strings.NewReplacer(replaced...).Replace(script)}.Calls(t)
	if len(calls) != 1 {
		t.Fatalf("script has %d commands, want one:\n%s", len(calls), script)
	}
	return calls[0]
}

func yamlOf(t *testing.T, page, heading string) string { return blockAfter(t, page, heading, "yaml") }

// guideRunner runs commands from guides on one fleet, as an operator does.
type guideRunner struct {
	*testing.T
	f       *fleet.Fleet
	r       *fleet.Runtime
	s       shell
	rollout string
}

// on runs a script with a different kubeconfig.
func (w *guideRunner) on(kubeconfig, script string) string {
	w.Helper()
	other := w.s
	other.env = append(other.env, "KUBECONFIG="+kubeconfig)
	return other.run(script)
}

// prints runs a script and checks that its output contains the strings.
func (w *guideRunner) prints(script string, wants ...string) {
	w.Helper()
	output := w.s.run(strings.ReplaceAll(script, "ROLLOUT", w.rollout))
	for _, want := range wants {
		if !strings.Contains(output, want) {
			w.Errorf("%s\ndoes not print %q:\n%s", script, want, output)
		}
	}
}

// until repeats a script until a line in its output contains all strings, and returns the line's first word.
func (w *guideRunner) until(script string, wants ...string) (first string) {
	w.Helper()
	until(w.T, time.Minute, fmt.Sprintf("%s reports %q", script, wants), func() (bool, string) {
		output, err := w.s.try(strings.ReplaceAll(script, "ROLLOUT", w.rollout))
		for line := range strings.Lines(output) {
			if err == nil &&
				!slices.ContainsFunc(wants, func(want string) bool { return !strings.Contains(line, want) }) {
				first, _, _ = strings.Cut(strings.TrimSpace(line), " ")
				return true, ""
			}
		}
		return false, fmt.Sprint(output, err)
	})
	return first
}

// lines returns the lines of a script without comments.
func lines(script string) []string {
	all := strings.Split(strings.TrimSpace(strings.ReplaceAll(script, "\\\n", "")), "\n")
	return slices.DeleteFunc(all, func(line string) bool { return strings.HasPrefix(line, "#") })
}

// The test runs docs/tutorials/first-rollout.md on a fleet in the same state as after the demo, and then the commands
// on other pages.
func TestOperatorGuidesWork(t *testing.T) {
	suite.Long(t) // the short suite runs TestOperatorReadsStatusAndControlsOneRuntime
	ctx := t.Context()
	f := startFleet(t, fleet.Options{})
	must(t, f.Offer(ctx, sample.Scaler("1.8.0"), sample.Scaler("1.9.0"), sample.Scaler("1.10.0")))
	promote(t, f, "1.8.0")
	r := runtimeWith(t, f, "berlin", map[string]string{"scaler": "1.8.0"})
	tokyo, err := f.Simulate(ctx, fleet.NewKyma("tokyo", "regular", "scaler"))
	must(t, err)
	untilSettled(t, tokyo, "1.8.0")
	plugins := t.TempDir()
	w := &guideRunner{T: t, f: f, r: r,
		s: newShell(t, f.Dir, f.Binaries(), "registry.example/fleet", f.Location(), ".demo/", f.Dir+"/",
			"bin/kcp-publisher", f.Binaries().Publisher, "/usr/local/bin", plugins,
			"RUNTIME", "berlin", "MODULE", "scaler", "WAVE", "all", "registry.example/components", f.Components(),
			"REGISTRY/PATH", f.Components(),
			"kyma-project.io/module/keda:1.8.0", "example.org/module/mailer:1.0.0", "kyma ship", "kyma tokyo")}
	w.s.env = append(w.s.env, "PATH="+plugins+":"+pathOf(w.s.env), "KUBECONFIG="+filepath.Join(f.Dir, "kcp.kubeconfig"))
	w.firstRollout()
	w.rollouts()
	w.operations()
	w.carried()
	w.pruned()
	w.modules()
	w.clocks()
}

// pathOf returns the value of $PATH in an environment. If an environment sets $PATH several times, the last value takes
// effect.
func pathOf(env []string) (path string) {
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			path = value
		}
	}
	return path
}

func (w *guideRunner) firstRollout() {
	steps := blocksOf(w.T, "docs/tutorials/first-rollout.md", 7)
	w.prints(steps[1], "berlin", "tokyo") // steps[0] starts the demo
	w.prints(steps[2])
	w.prints(steps[3])
	w.rollout = w.until(steps[4], "Waiting")
	approve := lines(steps[5])
	w.prints(approve[0])
	w.until(approve[1], "Succeeded")
	undo := lines(steps[6])
	w.prints(undo[0])
	w.until(undo[1], "RolledBack")
}

// rollouts prepares a rollout that waits for approval, and runs the commands in the rollout guide.
func (w *guideRunner) rollouts() {
	reads, actions, why := w.rolloutBlocks()
	must(w.T, w.f.Release(w.Context(), "scaler", sample.Scaler("").Component(), sample.Channel("regular", "1.10.0")))
	w.rollout = w.until(reads[0], "Waiting", "1.10.0")
	w.prints(reads[1], "Waiting", "1.10.0")
	for _, verb := range []string{"pause", "resume", "pause", "approve", "abort", "undo"} {
		w.prints(actions[verb])
	}
	w.until(reads[0], w.rollout, "RolledBack")
	w.prints(why, "1.10.0")
	// After the retry, the rollout waits for the approval again.
	w.prints(actions["retry"], "is retried")
	w.rollout = w.until(reads[0], "Waiting", "1.10.0")
	w.prints(actions["undo"])
	w.until(reads[0], w.rollout, "RolledBack")
	w.prints(blocksOf(w.T, "docs/guides/maintenance.md", 1)[0], "scaler")
	policy := strings.NewReplacer("[keda]", "[scaler]").
		Replace(yamlOf(w.T, "docs/guides/rollouts.md", "Promote a version in waves"))
	w.prints("kubectl apply -f - <<'END'\n"+policy+"END\n", "configured")
}

// rolloutBlocks returns the commands in docs/guides/rollouts.md that follow the promotion: the commands that show
// rollouts, the actions by name, and the `why` command. TestOperatorPromotesWithoutGitAndReadsFailureCause runs
// `promote`.
func (w *guideRunner) rolloutBlocks() (reads []string, actions map[string]string, why string) {
	blocks := blocksOf(w.T, "docs/guides/rollouts.md", 4)[1:]
	actions = map[string]string{}
	for _, line := range lines(blocks[1]) {
		actions[strings.Fields(line)[2]] = line
	}
	if len(actions) != 6 {
		w.Errorf("unexpected rollout commands %v", actions)
	}
	return lines(blocks[0]), actions, blocks[2]
}

func (w *guideRunner) operations() {
	t := w.T
	operate := blocksOf(t, "docs/guides/operate-a-fleet.md", 3)
	w.prints(operate[0], "berlin", "tokyo")
	w.prints(operate[1], "berlin", "tokyo")
	w.prints(operate[2])
	w.prints("kubectl_complete-kyma_pull st", "status")
	trouble := blocksOf(t, "docs/guides/troubleshooting.md", 3)
	w.prints(trouble[0], "berlin")
	w.prints(trouble[2], `"berlin"`, "version")
	for _, line := range lines(blocksOf(t, "docs/reference/kubectl.md", 1)[0]) {
		w.prints(line)
	}
	w.prints("kubectl get kyma -n kcp-system --field-selector status.runtime.id=berlin -o name",
		"kyma.operator.kyma-project.io/berlin")
	must(t, w.f.Control.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: sample.Namespace, Name: "kyma-pull-git"},
	}))
	w.prints(blocksOf(t, "docs/guides/git.md", 4)[1], "annotated")
	w.prints(blocksOf(t, "docs/guides/airgap.md", 4)[2], "annotated")
}

// carried exports and imports a report as docs/guides/airgap.md describes. If the runtime sends another report
// between the two commands, carried repeats both.
func (w *guideRunner) carried() {
	back := strings.NewReplacer("registry.ship.example/fleet", w.f.Location(), "--runtime ship", "--runtime tokyo").
		Replace(blocksOf(w.T, "docs/guides/airgap.md", 4)[1])
	w.until(back, "tokyo", "already exists")
}

// pruned checks that `registry prune` removes nothing from a new registry.
func (w *guideRunner) pruned() {
	must(w.T, os.WriteFile(filepath.Join(w.f.Dir, "pruner.json"), []byte(`{"auths":{}}`), 0o600))
	w.prints(blocksOf(w.T, "docs/guides/registry.md", 3)[1], "nothing to remove")
}

// modules creates, signs and copies a component, and pins versions in a runtime.
func (w *guideRunner) modules() {
	t := w.T
	blocks := blocksOf(t, "docs/guides/modules.md", 3)
	key, err := rsa.GenerateKey(rand.Reader, 3072)
	must(t, err)
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	must(t, err)
	content := filepath.Join(w.f.Dir, "mailer")
	must(t, os.Mkdir(content, 0o700))
	policy := strings.NewReplacer("kyma-project.io/module/*", "example.org/module/*", "kyma-module-signature",
		"release").Replace(yamlOf(t, "docs/guides/modules.md", "Signatures"))
	for path, data := range map[string]string{
		filepath.Join(content,
			"all.yaml"): "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mailer, namespace: kyma-system}\n",
		"release.key": string(pem.EncodeToMemory(&pem.Block{
			Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key),
		})),
		"kyma.pub.pem": string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})),
		"policy.yaml":  policy,
	} {
		if !filepath.IsAbs(path) {
			path = filepath.Join(w.f.Dir, path)
		}
		must(t, os.WriteFile(path, []byte(data), 0o600))
	}
	w.prints(blocks[0], "mailer")
	w.prints(blocks[2], "complies with the policy")
	for _, made := range []string{"mailer-1.0.0.yaml", "keda.tgz"} {
		if _, err := os.Stat(filepath.Join(w.f.Dir, made)); err != nil {
			t.Error(err)
		}
	}
	if output := w.on(w.r.Kubeconfig(), blocks[1]); !strings.Contains(output, "annotated") {
		t.Error(output)
	}
}

// clocks runs the commands in docs/runbooks/wrong-clocks.md.
func (w *guideRunner) clocks() {
	t := w.T
	blocks := blocksOf(t, "docs/runbooks/wrong-clocks.md", 2)
	createDeployment(t, w.r.API, v1beta2.RuntimeNamespace, "skr-agent")
	before, err := inForce(t, w.r)
	must(t, err)
	w.prints(blocks[0], "scaled")
	must(t, w.r.CrashAgent())
	until(t, time.Minute, "the agent accepts a bundle again", func() (bool, string) {
		now, err := inForce(t, w.r)
		return err == nil && now.Predicate.Sequence >= before.Predicate.Sequence, fmt.Sprint(err)
	})
	w.prints(blocks[1], "condition met")
	must(t, w.r.UntilState(t.Context(), "scaler", "1.8.0", v1beta2.StateReady))
}
