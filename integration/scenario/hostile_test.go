package scenario

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// False times, sequence numbers and modules in a runtime's report affect only that runtime's status, and only until the
// next correct report.
func TestCorrectReportReplacesFalseReport(t *testing.T) {
	suite.Long(t) // the short suite runs TestPublisherRefusesHostileReports
	f := startFleet(t, fleet.Options{Silence: 15 * time.Second})
	r := newReporter(t, f, "stranger")
	good := func(*bundle.Report) {}
	r.pushReport(good)
	r.untilReporting("Reported=True")
	year := 365 * 24 * time.Hour
	module := func(name, state string) bundle.ReportedModule {
		return bundle.ReportedModule{Name: name, State: v1beta2.State(state)}
	}
	for _, c := range []struct {
		name   string
		change func(*bundle.Report)
		want   string
	}{
		{
			"time in the year 9999", func(r *bundle.Report) { r.Time = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) },
			"ReportRefused=False: the latest report was refused: refused (NotYetIssued)",
		},
		{"report time beyond the year 9999 in UTC", func(r *bundle.Report) {
			r.Time = time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -12*60*60))
		}, "refused (NotYetIssued)"},
		{
			"zero time", func(r *bundle.Report) { r.Time = time.Time{} },
			"refused (Malformed): report: time",
		},
		{
			"largest possible sequence", func(r *bundle.Report) { r.Sequence = math.MaxInt64 },
			"refused (NotYetIssued)",
		},
		{
			"clock one year ahead",
			func(r *bundle.Report) {
				r.Time, r.Sequence = r.Time.Add(year), r.Time.Add(year).UnixMilli()
			}, "refused (NotYetIssued)",
		},
		{
			"clock one year behind", func(r *bundle.Report) { r.Time = r.Time.Add(-year) },
			"ClockBehind=False: the latest report arrived at",
		},
		{
			"invalid channel name", func(r *bundle.Report) { r.Kyma.Spec.Channel = "Ü!\x1b[2J" },
			`refused (Malformed): report: spec.channel: "Ü!\x1b[2J"`,
		},
		{
			"9,000-letter channel name", func(r *bundle.Report) { r.Kyma.Spec.Channel = strings.Repeat("a", 9000) },
			"refused (Malformed): report: spec.channel",
		},
		{"unknown custom resource policy", func(r *bundle.Report) {
			r.Kyma.Spec.Modules = []v1beta2.Module{{Name: "scaler", CustomResourcePolicy: "Sometimes"}}
		}, "refused (Malformed): report: spec.modules[0].customResourcePolicy"},
		{"duplicate requested module", func(r *bundle.Report) {
			r.Kyma.Spec.Modules = []v1beta2.Module{{Name: "scaler", Managed: true}, {Name: "scaler", Managed: true}}
		}, "refused (Malformed): report: spec.modules[1]"},
		{"duplicate installed module", func(r *bundle.Report) {
			r.Modules = []bundle.ReportedModule{module("scaler", "Ready"), module("scaler", "Error")}
		}, "refused (Malformed): report: modules[1].name"},
		{
			"module without a name",
			func(r *bundle.Report) {
				r.Modules = []bundle.ReportedModule{module("", "Ready")}
			}, "refused (Malformed): report: modules[0].name",
		},
		{
			"unknown module state",
			func(r *bundle.Report) {
				r.Modules = []bundle.ReportedModule{module("scaler", "Splendid")}
			}, "refused (Malformed): report: status.modules[0].state",
		},
		{"more modules than allowed", func(r *bundle.Report) {
			for i := range bundle.MaxManifests + 1 {
				r.Modules = append(r.Modules, module(fmt.Sprint("m", i), "Ready"))
			}
		}, "refused (Malformed): report: modules: 501 entries, must be at most 500"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.pushReport(c.change)
			if kyma := r.untilReporting(c.want); kyma.Status.State == v1beta2.StateReady {
				t.Errorf("unexpected Kyma state %s", kyma.Status.State)
			}
			r.pushReport(good)
			r.untilReporting("Reported=True")
		})
	}
	t.Run("clock less than a day ahead does not hide silence", func(*testing.T) {
		r.pushReport(func(report *bundle.Report) { report.Time = report.Time.Add(23 * time.Hour) })
		r.untilReporting("Silent=False")
	})
	t.Run("publisher restart does not renew report times", func(t *testing.T) {
		r.pushReport(good)
		before := r.untilReporting("Reported=True")
		must(t, f.Publisher().Stop())
		must(t, f.StartPublisher())
		after := r.untilReporting("Silent=False")
		if a, b := after.Status.Runtime.Observed.Heard, before.Status.Runtime.Observed.Heard; !a.Equal(b) {
			t.Errorf("report time changed from %s to %s after a restart", b, a)
		}
	})
	t.Run("reencoded report is not a new report", func(t *testing.T) {
		before := r.untilReporting("Silent=False")
		fetched := reportOf(t, f, r.id)
		var again map[string]any
		must(t, json.Unmarshal(fetched.Bytes, &again))
		data, err := json.MarshalIndent(again, "", " ")
		must(t, err)
		blob := bundle.NewBlob(fetched.Descriptor.MediaType, data)
		asked := watchFetches(f)
		must(t, store.PushReport(t.Context(), f.Place, r.id, blob))
		asked.until(t, blob.Descriptor.Digest)
		// The publisher processes reports in order. Once it has processed the next report, it has also processed the
		// reencoded report.
		r.pushReport(func(report *bundle.Report) { report.Kyma.Spec.Channel = "" })
		after := r.untilReporting("spec.channel")
		if a, b := after.Status.Runtime.Observed.Heard, before.Status.Runtime.Observed.Heard; !a.Equal(b) {
			t.Errorf("report time changed from %s to %s", b, a)
		}
	})
	t.Run("implausible recorded sequence does not block reports", func(t *testing.T) {
		must(t, f.Publisher().Stop())
		kyma, err := r.record()
		must(t, err)
		poisoned := kyma.DeepCopy()
		poisoned.Status.Runtime.ReportSequence = math.MaxInt64
		must(t, f.Control.Status().Patch(t.Context(), poisoned, client.MergeFrom(kyma)))
		must(t, f.StartPublisher())
		r.pushReport(good)
		if after := r.untilReporting("Reported=True"); after.Status.Runtime.ReportSequence > time.Now().UnixMilli() {
			t.Errorf("the Kyma still has report sequence %d", after.Status.Runtime.ReportSequence)
		}
	})
	t.Run("new key resets the sequence", func(t *testing.T) {
		r.pushReport(func(report *bundle.Report) {
			// The publisher records only changes.
			report.Sequence, report.AgentVersion = report.Sequence+(23*time.Hour).Milliseconds(), "v2"
		})
		until(t, time.Minute, "a sequence that is 23 hours ahead is accepted", func() (bool, string) {
			kyma, err := r.record()
			must(t, err)
			return kyma.Status.Runtime.ReportSequence > time.Now().Add(22*time.Hour).UnixMilli(),
				fmt.Sprint(kyma.Status.Runtime.ReportSequence)
		})
		r.pushReport(good)
		r.untilReporting("refused (Rollback)")
		output, code := fleet.Run(t.Context(), f.Binaries().Publisher, "revoke", r.id, "--kubeconfig",
			f.PublisherKubeconfig(), "--namespace", sample.Namespace)
		if code != 0 {
			t.Fatalf("revoke: exit code %d\n%s", code, output)
		}
		r.pushReport(good)
		r.untilReporting("refused (Revoked)")
		r.enroll()
		r.pushReport(good)
		r.untilReporting("Reported=True")
	})
	t.Run("valid status replaces one that the API server refuses", func(t *testing.T) {
		stop := denyStatus(t, f.Control, r.id, "object.status.runtime.observed.agentVersion == 'unspeakable'")
		until(t, time.Minute, "the admission policy takes effect", func() (bool, string) {
			kyma, err := r.record()
			must(t, err)
			changed := kyma.DeepCopy()
			changed.Status.Runtime.Observed.AgentVersion = "unspeakable"
			err = f.Control.Status().Patch(t.Context(), changed, client.MergeFrom(kyma), client.DryRunAll)
			return apierrors.IsInvalid(err), fmt.Sprint(err)
		})
		r.pushReport(func(report *bundle.Report) { report.AgentVersion = "unspeakable" })
		if kyma := r.untilReporting("ReportRefused=False: the runtime's data results in a status that the API server " +
			"refuses"); kyma.Status.State != v1beta2.StateWarning {
			t.Errorf("unexpected Kyma state %s", kyma.Status.State)
		}
		stop()
		r.pushReport(good)
		r.untilReporting("Reported=True")
	})
}

// A Kyma that is too large for a report must not stop the agent's reports. If the report does not contain the requested
// modules, the publisher must keep the previous request.
func TestOversizedReportIsTruncatedAndAccepted(t *testing.T) {
	suite.Long(t) // the short suite runs TestEveryReportFitsTheSizeLimit and TestTruncatedReportIsReported
	f := newFleet(t, fleet.Options{})
	runtime := runtimeWith(t, f, "crowded", map[string]string{"scaler": "1.7.0"})
	r := &reporter{t: t, fleet: f, id: runtime.ID}
	r.untilReporting("Reported=True")
	must(t, runtime.EditKyma(t.Context(), func(spec *v1beta2.KymaSpec) {
		for i := range 600 {
			spec.Modules = append(spec.Modules, managed(fmt.Sprint("nobody-knows-", i)))
		}
	}))
	kyma := r.untilReporting(
		"Truncated=True: the runtime reports; its report is truncated to fit: the 601 modules that its Kyma requests " +
			"are ignored")
	if asked := kyma.Status.Runtime.Requested.Spec.Modules; kyma.Status.State != v1beta2.StateWarning ||
		len(asked) != 1 || asked[0].Name != "scaler" {
		t.Errorf("got Kyma state %s and requested modules %+v", kyma.Status.State, asked)
	}
	must(t, runtime.UntilState(t.Context(), "scaler", "1.7.0", v1beta2.StateReady))
	must(t, runtime.EditKyma(t.Context(), func(spec *v1beta2.KymaSpec) { spec.Modules = spec.Modules[:1] }))
	r.untilReporting("Reported=True")

	// An agent restarts after its clock was set back.
	runtime.Agent().Stop()
	var secret corev1.Secret
	must(t, runtime.API.Get(t.Context(), inKyma("skr-agent-key"), &secret))
	var err error
	r.signer, err = trust.LoadSigner(secret.Data["agent.key"])
	must(t, err)
	last, err := bundle.ClaimedReport(reportOf(t, f, r.id))
	must(t, err)
	ahead := time.Now().Add(20 * time.Hour).UnixMilli()
	last.Sequence, last.AgentVersion = ahead, "another" // the publisher records only changes
	// The report has the maximum number of modules.
	for i := len(last.Modules); i < bundle.MaxManifests; i++ {
		one := last.Modules[0]
		one.Resource, one.Name = nil, fmt.Sprintf("module-with-a-longer-name-%04d", i)
		last.Modules = append(last.Modules, one)
	}
	manifest, err := bundle.ComposeReport(last, r.signer)
	must(t, err)
	must(t, store.PushReport(t.Context(), f.Place, r.id, manifest))
	sequence := func(at int64) {
		t.Helper()
		until(t, time.Minute, fmt.Sprint("report ", at, " or a later report is accepted"), func() (bool, string) {
			kyma, err := r.record()
			must(t, err)
			return kyma.Status.Runtime.ReportSequence >= at, fmt.Sprint(kyma.Status.Runtime.ReportSequence)
		})
	}
	sequence(ahead)
	must(t, runtime.StartAgent())
	sequence(ahead + 1)
	r.untilReporting("Reported=True")
}
