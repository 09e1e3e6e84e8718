package scenario

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// candidate is one of several publishers that compete for the Lease.
type candidate struct {
	*fleet.Process
	log string
}

// startCandidate starts a candidate that exits when it loses the Lease.
func startCandidate(t *testing.T, f *fleet.Fleet, name string, flags ...string) *candidate {
	t.Helper()
	return runCandidate(t, f, name, fleet.Command{Args: flags})
}

// runCandidate starts a candidate with additional arguments and environment variables.
func runCandidate(t *testing.T, f *fleet.Fleet, name string, c fleet.Command) *candidate {
	t.Helper()
	c.Binary, c.Log = f.Binaries().Publisher, filepath.Join(f.Dir, name+".log")
	c.Args = append([]string{"run", "--kubeconfig", f.PublisherKubeconfig(), "--location", f.Location(), "--keys",
		f.Keys(),
		"--components", f.Components(), "--metrics-bind-address", "0", "--health-probe-bind-address", "0",
		"--set", "report-poll-interval=300ms",
		"--leader-elect", "--set", "leader-election-lease-duration=15s", "--set", "leader-election-renew-deadline=12s",
		"--set", "leader-election-retry-period=1s"}, c.Args...)
	process, err := c.Start()
	must(t, err)
	started := &candidate{process, c.Log}
	t.Cleanup(func() { started.kill(t) })
	return started
}

func (c *candidate) kill(t *testing.T) {
	t.Helper()
	must(t, c.Kill())
}

func (c *candidate) signal(t *testing.T, s os.Signal) {
	t.Helper()
	must(t, c.Signal(s))
}

// untilLogged waits until the log contains the given text.
func (c *candidate) untilLogged(t *testing.T, text string) {
	t.Helper()
	until(t, time.Minute, "the log of the publisher reports "+text, func() (bool, string) {
		data, err := os.ReadFile(c.log)
		return err == nil && strings.Contains(string(data), text), string(last(data, 1000))
	})
}

// The test suspends the leader's process until another candidate holds the Lease.
func TestPublisherWithoutItsLeasePushesNothing(t *testing.T) {
	f := newFleet(t, fleet.Options{})
	must(t, f.Publisher().Stop())
	deposed := startCandidate(t, f, "first")
	for i := range 8 {
		must(t, f.Control.Create(t.Context(), fleet.NewKyma(fmt.Sprintf("noise-%d", i), "regular", "scaler")))
	}
	deposed.untilLogged(t, `"runtime":"noise-7"`)
	successor := startCandidate(t, f, "second")
	successor.untilLogged(t, "starting")
	deposed.signal(t, syscall.SIGSTOP)
	successor.untilLogged(t, "catalog changed") // the successor leads after this log line
	successor.signal(t, syscall.SIGSTOP)        // the suspended successor still has the Lease for some seconds

	var pushed atomic.Int32
	f.Registry.Intercept(func(_ http.ResponseWriter, request *http.Request) bool {
		if request.Method == http.MethodPut && strings.Contains(request.URL.Path, "/runtimes/") {
			pushed.Add(1)
		}
		return false
	})
	promote(t, f, "1.8.0")
	deposed.signal(t, syscall.SIGCONT)
	select {
	case <-deposed.Exited():
	case <-time.After(fleet.LongTimeout):
		t.Fatal("the former leader did not exit")
	}
	if n := pushed.Load(); n != 0 {
		t.Errorf("the former leader pushed %d bundles, want none", n)
	}
	successor.kill(t)
	must(t, f.StartPublisher())
	until(t, time.Minute, "the next leader publishes", func() (bool, string) {
		return pushed.Load() >= 8, fmt.Sprint(pushed.Load())
	})
}

// An attacker with the publisher's key pushes a bundle while the publisher runs.
func TestPublisherDetectsBundleFromAnotherPublisher(t *testing.T) {
	ctx := t.Context()
	f := shareFleet(t)
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	untilQuiet(t, f)
	beside := forged(t, f, r, publisherKey(t, f), func(p *bundle.Predicate) {
		p.Sequence, p.Previous = time.Now().UnixMilli(), nil
	})
	theirs := predicateOf(t, f, r, beside).Sequence
	must(t, r.Put(ctx, beside))
	until(t, 30*time.Second, "the publisher replaces the attacker's bundle", func() (bool, string) {
		record, err := r.Record(ctx)
		if err != nil || record.Status.Runtime.Published == nil || record.Status.Runtime.Observed == nil {
			return false, fmt.Sprint(err)
		}
		published, observed := record.Status.Runtime.Published.Sequence, record.Status.Runtime.Observed.Sequence
		return published > theirs && observed == published && record.Status.State == v1beta2.StateReady,
			fmt.Sprint(published, " published, ", observed, " observed, ", theirs, " theirs")
	})
	untilEvent(t, f, r.ID, v1beta2.ReasonBundleUnknown, fmt.Sprint("bundle ", theirs))
}

// untilEvent waits for an Event on a runtime's Kyma in the control plane.
func untilEvent(t *testing.T, f *fleet.Fleet, kyma, reason, text string) {
	t.Helper()
	until(t, 30*time.Second, "an Event on Kyma "+kyma+" reports "+reason+": "+text, func() (bool, string) {
		var events eventsv1.EventList
		if err := f.Control.List(t.Context(), &events); err != nil {
			return false, err.Error()
		}
		var others []string
		for _, e := range events.Items {
			if e.Regarding.Name == kyma && e.Reason == reason && strings.Contains(e.Note, text) {
				return true, ""
			}
			others = append(others, e.Reason+": "+e.Note)
		}
		return false, strings.Join(others, "\n")
	})
}

// A user with write access to Leases deletes the publisher's Lease, and later acquires it without renewing it.
func TestLeaderRegainsADeletedOrTakenLease(t *testing.T) {
	suite.Long(t) // the short suite runs TestPublisherWithoutItsLeasePushesNothing
	ctx := t.Context()
	f := newFleet(t, fleet.Options{})
	must(t, f.Publisher().Stop())
	untilPublished := func(id, version string) {
		t.Helper()
		until(t, time.Minute, "a bundle for "+id+" contains scaler "+version, func() (bool, string) {
			var kyma v1beta2.Kyma
			err := f.Control.Get(ctx, client.ObjectKey{Namespace: sample.Namespace, Name: id}, &kyma)
			r := kyma.Status.Runtime
			return err == nil && r != nil && r.Published != nil && r.Published.Versions["scaler"] == version,
				fmt.Sprint(err, r)
		})
	}
	leader := startCandidate(t, f, "first")
	must(t, f.Control.Create(ctx, fleet.NewKyma("one", "regular", "scaler")))
	untilPublished("one", "1.7.0")

	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: sample.Namespace, Name: "kcp-publisher.kyma-pull.dev"},
	}
	must(t, f.Control.Delete(ctx, lease))
	until(t, time.Minute, "the leader recreates the Lease", func() (bool, string) {
		err := f.Control.Get(ctx, client.ObjectKeyFromObject(lease), lease)
		return err == nil, fmt.Sprint(err)
	})
	promote(t, f, "1.8.0")
	untilPublished("one", "1.8.0")

	until(t, time.Minute, "another client acquires the Lease", func() (bool, string) {
		must(t, f.Control.Get(ctx, client.ObjectKeyFromObject(lease), lease))
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = new("somebody"), new(metav1.NowMicro())
		err := f.Control.Update(ctx, lease)
		return err == nil, fmt.Sprint(err)
	})
	select {
	case <-leader.Exited():
	case <-time.After(fleet.LongTimeout):
		t.Fatal("the leader did not exit after it lost the Lease")
	}
	startCandidate(t, f, "second") // start the process again, as Kubernetes restarts a container
	must(t, f.Control.Create(ctx, fleet.NewKyma("two", "regular", "scaler")))
	untilPublished("two", "1.8.0")
}
