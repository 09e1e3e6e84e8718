package scenario

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// reported returns the newest report of a runtime's agent.
func reported(t *testing.T, f *fleet.Fleet, r *fleet.Runtime) bundle.Blob {
	t.Helper()
	repository, err := f.Place.Repository(t.Context(), bundle.ReportRepository(r.ID))
	must(t, err)
	fetched, err := store.Fetch(t.Context(), repository, bundle.TagLatest)
	must(t, err)
	return bundle.Blob(fetched)
}

// The registry's owner and runtime "one1" push false reports for runtime "one".
func TestPublisherRefusesHostileReports(t *testing.T) {
	ctx := t.Context()
	smoke := []refusal.Reason{refusal.ForeignKey, refusal.Rollback}
	f := newFleet(t, fleet.Options{})
	victim := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	other := runtimeWith(t, f, "one1", map[string]string{"mailer": "1.0.0"})
	early := reported(t, f, victim)
	until(t, 60*time.Second, "one1 reports its certificate and the victim reports again", func() (bool, string) {
		record, err := other.Record(ctx)
		if err != nil || record.Status.Runtime == nil || record.Status.Runtime.Key == nil {
			return false, fmt.Sprint(err)
		}
		key, err := trust.DecodePublicKey(record.Status.Runtime.Key.PublicKey)
		must(t, err)
		accepted, err := bundle.VerifyReport(bundle.Fetched(reported(t, f, other)), bundle.Reporter{
			Runtime: "one1", Fleet: rootOf(t, f).Fleet, Key: key,
		})
		return err == nil && accepted.Certificate != "" &&
			reported(t, f, victim).Descriptor.Digest != early.Descriptor.Digest, fmt.Sprint(err)
	})
	untilQuiet(t, f)
	victim.Agent().Stop()
	other.Agent().Stop()
	untilQuiet(t, f)
	honest := reported(t, f, victim)
	report, err := bundle.ClaimedReport(bundle.Fetched(honest))
	must(t, err)
	desired, err := victim.Desired(ctx)
	must(t, err)
	stranger, err := trust.GenerateKey()
	must(t, err)
	strangerKey, err := trust.LoadSigner(stranger)
	must(t, err)
	lie := bundle.Report{
		Runtime: "one", Fleet: rootOf(t, f).Fleet, Sequence: time.Now().Add(time.Hour).UnixMilli(),
		Time: time.Now().UTC(),
	}
	signedLie := func(change func(*bundle.Report), signer trust.Signer) bundle.Blob {
		report := lie
		change(&report)
		blob, err := bundle.ComposeReport(report, signer)
		must(t, err)
		return blob
	}
	introduction := func() *trust.Enrollment {
		public, err := strangerKey.PublicKey()
		must(t, err)
		text, err := trust.EncodePublicKey(public)
		must(t, err)
		return &trust.Enrollment{
			PublicKey: text, Proof: []byte("guessed"), TokenExpires: time.Now().Add(24 * time.Hour).Unix(),
		}
	}
	put := func(t *testing.T, blob bundle.Blob) {
		t.Helper()
		repository, err := f.Place.Repository(ctx, bundle.ReportRepository("one"))
		must(t, err)
		for _, d := range decodeManifest(t, desired.Bytes).Layers {
			mountFrom(t, f, repository, "one", d)
		}
		mountFrom(t, f, repository, "one", decodeManifest(t, desired.Bytes).Config)
		must(t, store.PushManifest(ctx, repository, blob, bundle.TagLatest))
	}
	untilReporting := func(t *testing.T, reason string) *v1beta2.Kyma {
		t.Helper()
		var record *v1beta2.Kyma
		until(t, 60*time.Second, "the control plane's Kyma has condition reason "+reason,
			func() (bool, string) {
				var err error
				if record, err = victim.Record(ctx); err != nil {
					return false, err.Error()
				}
				for _, c := range record.Status.Conditions {
					if c.Type == v1beta2.ConditionReporting {
						return strings.Contains(c.Reason+" "+c.Message, reason), c.Reason + " " + c.Message
					}
				}
				return false, "no condition"
			})
		return record
	}
	before := untilReporting(t, "Reported")

	for _, c := range []struct {
		name   string
		put    bundle.Blob
		reason refusal.Reason
	}{
		{
			"an unsigned report", altered(t, honest.Bytes, func(m *ocispec.Manifest) { m.Annotations = nil }),
			refusal.Unsigned,
		},
		{"a report signed by an unknown key", signedLie(func(*bundle.Report) {}, strangerKey), refusal.ForeignKey},
		{
			"a report signed by the publisher", signedLie(func(*bundle.Report) {}, publisherKey(t, f)),
			refusal.ForeignKey,
		},
		{
			"a report with an unknown key and without a token",
			signedLie(func(r *bundle.Report) { r.Enrollment = introduction() }, strangerKey), refusal.NotEnrolled,
		},
		{"another runtime's report", reported(t, f, other), refusal.ForeignKey},
		{"an older report", early, refusal.Rollback},
		{"a report with a flipped byte", altered(t, honest.Bytes, func(m *ocispec.Manifest) {
			m.Annotations[bundle.AnnotationReport] = flip(m.Annotations[bundle.AnnotationReport], `"payload":"`)
		}), refusal.BadSignature},
		{"the runtime's own bundle", bundle.NewBlob(ocispec.MediaTypeImageManifest, desired.Bytes), refusal.MediaType},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !slices.Contains(smoke, c.reason) {
				suite.Long(t) // the short suite runs TestVerifyReportAcceptsOnlyValidReports
			}
			put(t, c.put)
			after := untilReporting(t, "refused ("+string(c.reason)+")")
			if a, b := after.Status.Runtime, before.Status.Runtime; a.Observed.Sequence != b.Observed.Sequence ||
				a.Key.Thumbprint != b.Key.Thumbprint || a.ReportSequence != b.ReportSequence &&
				a.ReportSequence != report.Sequence {
				t.Errorf("the control plane's record changed from %+v to %+v", b, a)
			}
			put(t, honest)
			untilReporting(t, "Reported")
		})
	}
	t.Run("certificate of a runtime with a similar name is refused after a status loss",
		func(t *testing.T) {
			f.Publisher().Stop()
			record, err := victim.Record(ctx)
			must(t, err)
			record.Status = v1beta2.KymaStatus{}
			must(t, f.Control.Status().Update(ctx, record))
			put(t, reported(t, f, other))
			must(t, f.StartPublisher())
			after := untilReporting(t, "refused ("+string(refusal.NotEnrolled)+")")
			if after.Status.Runtime != nil && after.Status.Runtime.Key != nil {
				t.Errorf("the control plane recorded key %s", after.Status.Runtime.Key.Thumbprint)
			}
			put(t, honest)
			untilReporting(t, "Reported")
		})
}
