package scenario

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

func TestAgentCorrectsDriftAfterRestartWithoutRegistry(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{})
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	r.Agent().Kill()
	must(t, f.Registry.Stop())
	config, err := settings(ctx, r)
	must(t, err)
	must(t, r.API.Delete(ctx, config))
	must(t, r.StartAgent())
	until(t, 30*time.Second, "the agent recreates the deleted object", func() (bool, string) {
		_, err := settings(ctx, r)
		return err == nil, fmt.Sprint(err)
	})
	drift(t, r)
	until(t, 30*time.Second, "the agent corrects the drift", func() (bool, string) {
		config, err := settings(ctx, r)
		return err == nil && config.Data["level"] == "info", fmt.Sprint(config.Data, err)
	})
	until(t, 20*time.Second, "the runtime's Kyma is Ready", func() (bool, string) {
		kyma, err := r.Kyma(ctx)
		return err == nil && kyma.Status.State == v1beta2.StateReady, fmt.Sprint(err, kyma.Status.State)
	})
	must(t, f.Registry.Resume())
	promote(t, f, "1.8.0")
	must(t, r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
}

func TestRestartedPublisherAdoptsPushedBundle(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{})
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	untilQuiet(t, f)
	pushed, err := r.Desired(ctx)
	must(t, err)
	predicate := predicateOf(t, f, r, bundle.Blob(pushed))
	for name, remembered := range map[string]*v1beta2.PublishedBundle{
		"status with the previous bundle": {
			Epoch: predicate.Epoch, Sequence: predicate.Previous.Sequence, Digest: predicate.Previous.Digest.String(),
			Time: metav1.NewTime(predicate.IssuedAt), Versions: map[string]string{"scaler": "1.7.0"},
		},
		"status without a bundle": nil,
	} {
		f.Publisher().Kill()
		record, err := r.Record(ctx)
		must(t, err)
		before := record.DeepCopy()
		record.Status.Runtime.Published = remembered
		must(t, f.Control.Status().Patch(ctx, record, client.MergeFrom(before)))
		must(t, f.StartPublisher())
		until(t, 30*time.Second, name+": the publisher records the pushed bundle", func() (bool, string) {
			record, err := r.Record(ctx)
			if err != nil || record.Status.Runtime.Published == nil {
				return false, fmt.Sprint(err)
			}
			return record.Status.Runtime.Published.Digest == pushed.Descriptor.Digest.String(),
				record.Status.Runtime.Published.Digest
		})
		now, err := r.Desired(ctx)
		must(t, err)
		if now.Descriptor.Digest != pushed.Descriptor.Digest {
			t.Errorf("%s: the publisher pushed bundle %s after %s, want no push", name, now.Descriptor.Digest,
				pushed.Descriptor.Digest)
		}
		if log := f.Publisher().Log(); strings.Contains(log[strings.LastIndex(log, "starting"):],
			`"msg":"published bundle"`) {
			t.Errorf("%s: the restarted publisher published again", name)
		}
	}
}

// untilQuiet waits until the publisher has not published bundles for the fleet's runtimes for two seconds.
func untilQuiet(t *testing.T, f *fleet.Fleet) {
	t.Helper()
	published := -1
	since := time.Now()
	until(t, 30*time.Second, "the publisher has nothing to publish for two seconds", func() (bool, string) {
		if n := publications(f); n != published {
			published, since = n, time.Now()
		}
		return time.Since(since) > 2*time.Second, fmt.Sprint(published)
	})
}

// publications counts the bundles for the fleet's runtimes in the publisher's log.
func publications(f *fleet.Fleet) int {
	count := 0
	for line := range strings.Lines(f.Publisher().Log()) {
		if strings.Contains(line, "published bundle") && strings.Contains(line, f.Own("")+`"`) {
			count++
		}
	}
	return count
}

func TestAgentReachesSecuredRegistryWithBootstrapSecret(t *testing.T) {
	f := newFleet(t, fleet.Options{Secured: true})
	runtimeWith(t, f, "one", map[string]string{"mailer": "1.0.0"})
}

func TestRegistryOutageDelaysPublishingAndIsLoggedOnce(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{})
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	for i := range 20 { // the publisher must log the outage once, not once per runtime
		must(t, f.Control.Create(ctx, fleet.NewKyma(fmt.Sprintf("noise-%d", i), "regular", "mailer")))
	}
	untilQuiet(t, f)
	must(t, f.Registry.Stop())
	promote(t, f, "1.8.0")
	until(t, 30*time.Second, "the publisher reports the outage", func() (bool, string) {
		return strings.Contains(f.Publisher().Log(), "publishing is on hold"), "not logged yet"
	})
	untilRegistry(t, r, metav1.ConditionFalse, v1beta2.ReasonRegistryUnavailable)
	if err := fleet.Until(ctx, 4*time.Second, "a second log line about the outage", func() (bool, string) {
		return strings.Count(f.Publisher().Log(), "publishing is on hold") > 1, ""
	}); err == nil {
		t.Errorf("the outage was logged %d times, want 1", strings.Count(f.Publisher().Log(), "publishing is on hold"))
	}
	late, err := f.AddRuntime(ctx, "late", "regular", "mailer")
	must(t, err)
	// The runtime has no Kyma yet, so only an Event can report the problem.
	until(t, 30*time.Second, "an Event reports that the agent never reached its registry", func() (bool, string) {
		events := eventsOf(t, late, v1beta2.ReasonRegistryUnavailable)
		return len(events) == 1 && events[0].InvolvedObject.Name == v1beta2.RuntimeKymaName &&
			strings.Contains(events[0].Message, f.Location()), fmt.Sprint(events)
	})
	must(t, f.Registry.Resume())
	must(t, r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
	must(t, late.UntilState(ctx, "mailer", "1.0.0", v1beta2.StateReady))
	untilRegistry(t, r, metav1.ConditionTrue, v1beta2.ReasonRegistryAvailable)
	if n := strings.Count(f.Publisher().Log(), "registry available again"); n != 1 {
		t.Errorf("the end of the outage was logged %d times, want once", n)
	}
}

// untilRegistry waits until the runtime's Kyma has a Registry condition with the status and reason, and exactly one
// Event with the reason.
func untilRegistry(t *testing.T, r *fleet.Runtime, status metav1.ConditionStatus, reason string) {
	t.Helper()
	until(t, 60*time.Second, "the runtime reports "+reason, func() (bool, string) {
		kyma, err := r.Kyma(t.Context())
		if err != nil {
			return false, err.Error()
		}
		registry := meta.FindStatusCondition(kyma.Status.Conditions, v1beta2.ConditionRegistry)
		if registry == nil || registry.Status != status || registry.Reason != reason {
			return false, fmt.Sprintf("%+v", registry)
		}
		events := eventsOf(t, r, reason)
		if len(events) > 1 {
			t.Errorf("got %d Events with reason %s, want one", len(events), reason)
		}
		return len(events) == 1, fmt.Sprintf("%d Events", len(events))
	})
}

// eventsOf returns a runtime's Events with this reason.
func eventsOf(t *testing.T, r *fleet.Runtime, reason string) []corev1.Event {
	t.Helper()
	var events corev1.EventList
	must(t, r.API.List(t.Context(), &events, client.InNamespace(v1beta2.RuntimeNamespace)))
	return slices.DeleteFunc(events.Items, func(e corev1.Event) bool { return e.Reason != reason })
}

func TestIdleFleetWritesNothing(t *testing.T) {
	suite.Long(t) // the short suite runs TestUnchangedBundleCausesNoWrites and TestUnchangedReportDoesNotWriteTheStatus
	ctx := t.Context()
	f := newFleet(t, withSecrets)
	must(t, f.Control.Create(ctx, secretFor("one", "scaler", "scaler-login", "s3cret")))
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	secretsMessage(t, r, metav1.ConditionTrue, "Written")
	login := untilSecret(t, r, "scaler-login", "s3cret")
	untilQuiet(t, f)
	r.Agent().Stop()
	record, err := r.Record(ctx)
	must(t, err)
	own, err := r.Kyma(ctx)
	must(t, err)
	log := len(f.Publisher().Log())
	must(t, r.StartAgent())
	must(t, fleet.Until(ctx, fleet.LongTimeout, "the agent has polled five times", func() (bool, string) {
		return strings.Count(r.Agent().Log(), "starting") >= 2, ""
	}))
	_ = fleet.Until(ctx, 5*time.Second, "nothing", func() (bool, string) { return false, "" })
	again, err := r.Kyma(ctx)
	must(t, err)
	if again.ResourceVersion != own.ResourceVersion {
		t.Errorf("the runtime's Kyma was written without a change: %s to %s", own.ResourceVersion,
			again.ResourceVersion)
	}
	if now := untilSecret(t, r, "scaler-login", "s3cret"); now.ResourceVersion != login.ResourceVersion {
		t.Error("a Secret was written without a change")
	}
	recordAgain, err := r.Record(ctx)
	must(t, err)
	if recordAgain.Generation != record.Generation || recordAgain.Status.State != record.Status.State {
		t.Error("the control plane's Kyma was written without a change")
	}
	if grown := f.Publisher().Log()[log:]; grown != "" {
		t.Errorf("the publisher logs at steady state:\n%s", grown)
	}
	t.Run("heartbeats are not written before or after a publisher restart", func(t *testing.T) {
		untilHeartbeats(t, f, r.ID, 1)
		record, err := r.Record(ctx)
		must(t, err)
		patches := kymaPatches(t, f)
		untilHeartbeats(t, f, r.ID, 3)
		must(t, f.Publisher().Stop())
		must(t, f.StartPublisher())
		untilHeartbeats(t, f, r.ID, 2)
		again, err := r.Record(ctx)
		must(t, err)
		for _, entry := range again.ManagedFields {
			if entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), `"f:runtime":{"`) {
				t.Errorf("managedFields lists fields below status.runtime: %s", entry.FieldsV1)
			}
		}
		if now := kymaPatches(t, f); now != patches || again.ResourceVersion != record.ResourceVersion {
			t.Errorf("%d patches of Kymas before, want no more, got %d:\n%s", patches, now,
				diff.Diff(record.Status, again.Status))
		}
	})
}

// untilHeartbeats waits until the publisher has read count more reports from a runtime.
func untilHeartbeats(t *testing.T, f *fleet.Fleet, id string, count int) {
	t.Helper()
	asked, read := watchFetches(f), map[digest.Digest]bool{}
	until(t, time.Minute, fmt.Sprintf("the publisher reads %d reports of %s", count, id), func() (bool, string) {
		now := digest.FromBytes(reportOf(t, f, id).Bytes)
		asked.mu.Lock()
		defer asked.mu.Unlock()
		if asked.seen[now.String()] {
			read[now] = true
		}
		return len(read) >= count, fmt.Sprint(len(read))
	})
}

// kymaPatches returns the number of patch requests for Kymas and their statuses in the control plane.
func kymaPatches(t *testing.T, f *fleet.Fleet) (patches int) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(f.Dir, "kcp.kubeconfig"))
	must(t, err)
	api, err := kubernetes.NewForConfig(config)
	must(t, err)
	metrics, err := api.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	must(t, err)
	for line := range strings.Lines(string(metrics)) {
		if strings.HasPrefix(line, "apiserver_request_total{") && strings.Contains(line, `resource="kymas"`) &&
			strings.Contains(line, `verb="PATCH"`) {
			n, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64)
			must(t, err)
			patches += int(n)
		}
	}
	if patches == 0 {
		t.Fatal("the API server's metrics have no patches of Kymas")
	}
	return patches
}
