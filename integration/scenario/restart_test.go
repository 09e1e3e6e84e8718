package scenario

import (
	"fmt"
	"maps"
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
)

// The test uses production polling intervals and the agent's default Lease.
func TestIdleAgentSendsFewRequestsAndContinuesAfterAKill(t *testing.T) {
	suite.Long(t)
	f := newFleet(t, fleet.Options{
		LeaderElect: true, PublisherFlags: []string{"--agent-poll-interval=1m", "--agent-report-interval=5m"},
		AgentRights: []string{"agent.yaml", "all-modules.yaml"},
	})
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})

	killed := time.Now()
	must(t, r.CrashAgent())
	must(t, r.API.Delete(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: "scaler-settings"},
	}))
	until(t, 10*time.Second, "the agent restores the ConfigMap", func() (bool, string) {
		_, err := settings(t.Context(), r)
		return err == nil, fmt.Sprint(err)
	})
	// The new agent must not wait until the killed agent's Lease expires after three minutes.
	if took := time.Since(killed); took > 30*time.Second {
		t.Errorf("the agent corrected drift %s after the kill", took)
	} else {
		t.Logf("the agent corrected drift %s after the kill", took)
	}

	time.Sleep(time.Minute) // until the agent has filled its caches and pushed its report
	before, err := r.Requests()
	must(t, err)
	const minutes = 5 // one report interval
	time.Sleep(minutes * time.Minute)
	after, err := r.Requests()
	must(t, err)
	counts := map[string]int{}
	for _, request := range after[len(before):] {
		counts[request.Verb+" "+request.Resource+" "+request.Name]++
	}
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%4d %s", counts[what], what)
	}
	if n := len(after) - len(before); n > 2*minutes {
		t.Errorf("got %d requests in %d minutes, want at most two per minute", n, minutes)
	}
}

// After a restore, an API server accepts the programs' watches, but does not send events about objects that returned to
// an earlier state.
func TestProgramsRestartAfterAPIServerRestore(t *testing.T) {
	suite.Long(t)
	ctx := t.Context()
	f := newFleet(t, fleet.Options{LeaderElect: true})
	r, err := f.AddRuntime(ctx, "one", "regular", "scaler")
	must(t, err)
	must(t, r.Agent().Stop())
	// With this flag, the agent checks its API server every two seconds.
	r.AgentFlags = []string{"--set=leader-election-lease-duration=6s"}
	must(t, r.StartAgent())
	must(t, r.UntilState(ctx, "scaler", "1.7.0", v1beta2.StateReady))

	older, olderControl := filepath.Join(f.Dir, "older"), filepath.Join(f.Dir, "older-control")
	must(t, r.Backup(older))
	must(t, f.BackUpControlPlane(olderControl))
	promote(t, f, "1.8.0")
	must(t, r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
	untilQuiet(t, f)

	must(t, r.Restore(older))
	untilLogged(t, f, "one.log", "returned to an earlier state")
	until(t, time.Minute, "the agent installs 1.8.0 again", func() (bool, string) {
		manifest := &v1beta2.Manifest{}
		err := r.API.Get(ctx, inKyma("scaler"), manifest)
		return err == nil && manifest.Spec.Version == "1.8.0" && manifest.Status.State == v1beta2.StateReady,
			fmt.Sprint(err, manifest.Spec.Version, manifest.Status.State)
	})

	must(t, f.RestoreControlPlane(olderControl))
	untilLogged(t, f, "kcp-publisher.log", "returned to an earlier state")
	promote(t, f, "1.8.0")
	must(t, r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
}

// The runtime's admin adds a module after the backup. After the restore, the agent restarts, so the publisher ignores
// the requests in the agent's reports until an operator confirms the agent.
func TestRestoredControlPlaneKeepsModulesAddedAfterBackup(t *testing.T) {
	suite.Long(t) // the short suite runs TestOutdatedRequestChangesNoModulesUntilItIsVerified
	ctx := t.Context()
	f := newFleet(t, fleet.Options{})
	r, err := f.AddRuntime(ctx, "one", "regular", "scaler")
	must(t, err)
	must(t, r.UntilState(ctx, "scaler", "1.7.0", v1beta2.StateReady))
	untilQuiet(t, f)
	backup := filepath.Join(f.Dir, "backup")
	must(t, f.BackUpControlPlane(backup))
	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
		spec.Modules = append(spec.Modules, managed("mailer"))
	}))
	must(t, r.UntilState(ctx, "mailer", "1.0.0", v1beta2.StateReady))
	before := &v1beta2.Manifest{}
	must(t, r.API.Get(ctx, inKyma("mailer"), before))

	must(t, r.Agent().Stop())
	must(t, f.Publisher().Stop())
	must(t, f.RestoreControlPlane(backup))
	must(t, f.StartPublisher())
	must(t, r.StartAgent())
	until(t, time.Minute, "the control plane has the new request", func() (bool, string) {
		kyma, err := r.Record(ctx)
		if err != nil {
			return false, err.Error()
		}
		s := kyma.Status.Runtime
		return s != nil && s.Requested != nil && len(s.Requested.Spec.Modules) == 2, fmt.Sprintf("%+v", s)
	})
	must(t, r.UntilState(ctx, "mailer", "1.0.0", v1beta2.StateReady))
	manifest := &v1beta2.Manifest{}
	must(t, r.API.Get(ctx, inKyma("mailer"), manifest))
	if manifest.UID != before.UID {
		t.Errorf("got Manifest %s, want %s, because the module must not be removed", manifest.UID, before.UID)
	}
}

func untilLogged(t *testing.T, f *fleet.Fleet, log, text string) {
	t.Helper()
	until(t, time.Minute, log+" contains "+text, func() (bool, string) {
		data, err := os.ReadFile(filepath.Join(f.Dir, log))
		return err == nil && strings.Contains(string(data), text), string(last(data, 1000))
	})
}
