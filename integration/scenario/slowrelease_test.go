package scenario

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// TestSlowReleaseIsRolledBackByItsCheck follows docs/tutorials/catch-a-slow-release.md with a real Prometheus, on a
// fleet in the state after the demo. It fails if all steps take longer than the page states.
func TestSlowReleaseIsRolledBackByItsCheck(t *testing.T) {
	suite.Long(t) // the short suite runs TestFailedCheckRollsBackTheCanaryOnly
	ctx, started := t.Context(), time.Now()
	f := startFleet(t, fleet.Options{})
	must(t, f.Offer(ctx, sample.Scaler("1.8.0"), sample.Scaler("1.9.0")))
	promote(t, f, "1.8.0")
	berlin := runtimeWith(t, f, "berlin", map[string]string{"scaler": "1.8.0"})
	tokyo, err := f.Simulate(ctx, fleet.NewKyma("tokyo", "regular", "scaler"))
	must(t, err)
	untilSettled(t, tokyo, "1.8.0")
	steps := blocksOf(t, "docs/tutorials/catch-a-slow-release.md", 9)
	w := &guideRunner{T: t, f: f, r: berlin, s: newShell(t, f.Dir, f.Binaries(), ".demo/", f.Dir+"/",
		"bin/kcp-publisher", f.Binaries().Publisher)}
	w.s.env = append(w.s.env, "KUBECONFIG="+filepath.Join(f.Dir, "kcp.kubeconfig"))
	runSlowModule(t, wordsOf(t, steps[1], ".demo/berlin.kubeconfig", berlin.Kubeconfig())) // steps[0] starts the demo

	w.prints(steps[2], "berlin labeled", "careful created")
	w.prints(steps[3])
	w.rollout = w.until(steps[4], "RolledBack")
	w.prints(steps[5], "check latency failed in berlin (", "before the upgrade")
	w.until(steps[6], "berlin", "1.8.0")
	wantHistory(t, tokyo, "1.8.0")
	wantSlowValues(t, f, w.rollout)
	var deployment appsv1.Deployment
	must(t, berlin.API.Get(ctx, inKyma("scaler-manager"), &deployment))
	if image := deployment.Spec.Template.Spec.Containers[0].Image; image != "example.org/scaler:1.8.0" {
		t.Errorf("after the rollback, berlin runs %s", image)
	}
	if output, err := w.s.try(steps[7]); !strings.Contains(output, "1.9.0") {
		t.Errorf("status does not warn of the rejected version: %v\n%s", err, output)
	}
	w.prints(steps[8], "scaler patched")
	took := time.Since(started).Round(time.Second)
	t.Logf("all %d steps took %s", len(steps), took)
	page, err := os.ReadFile(filepath.Join(checkout, "docs/tutorials/catch-a-slow-release.md"))
	must(t, err)
	if stated := statedTime(t, string(page)); took > stated {
		t.Errorf("the steps took %s, the page states %s", took, stated)
	}
}

// runSlowModule starts the tutorial's program, and waits until its Prometheus measures the first version.
func runSlowModule(t *testing.T, words []string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "slowmodule")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, words[2])
	build.Dir = checkout
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", words[2], err, output)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "slowmodule.log"))
	must(t, err)
	cmd := exec.CommandContext(t.Context(), program, words[3:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait(); close(ended) }()
	t.Cleanup(func() { <-ended; _ = log.Close() }) // the context ends before the cleanup
	until(t, 20*time.Minute, "the program prints its last line", func() (bool, string) {
		output, err := os.ReadFile(log.Name())
		must(t, err)
		select {
		case err := <-ended:
			t.Fatalf("slowmodule ended: %v\n%s", err, output)
		default:
		}
		return strings.Contains(string(output), "Press Ctrl-C to stop."), string(output)
	})
}

// wantSlowValues fails the test unless the Rollout contains the latency before and after the upgrade.
func wantSlowValues(t *testing.T, f *fleet.Fleet, rollout string) {
	t.Helper()
	found, err := f.Rollout(t.Context(), rollout)
	must(t, err)
	if found.Status.State != v1alpha1.RolloutRolledBack || len(found.Status.Waves[0].Checks) != 1 {
		t.Fatalf("unexpected status of the rollout: %+v", found.Status)
	}
	check := found.Status.Waves[0].Checks[0]
	number := func(text string) float64 {
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Errorf("value of check %s: %v", check.Name, err)
		}
		return value
	}
	if check.Name != "latency" || check.Failed != 1 || number(check.Worst) <= 0.25 ||
		number(check.WorstBefore) >= number(check.Worst) {
		t.Errorf("unexpected results of the check: %+v", check)
	}
}

var takesMinutes = regexp.MustCompile(`The tutorial takes (\d+) minutes\.`)

// statedTime returns the duration that a tutorial states.
func statedTime(t *testing.T, page string) time.Duration {
	t.Helper()
	found := takesMinutes.FindAllStringSubmatch(page, -1)
	if len(found) != 1 {
		t.Fatalf("the page states %d durations, want one", len(found))
	}
	minutes, err := strconv.Atoi(found[0][1])
	must(t, err)
	return time.Duration(minutes) * time.Minute
}
