package scenario

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

func decodeManifest(t *testing.T, data []byte) ocispec.Manifest {
	t.Helper()
	var m ocispec.Manifest
	must(t, json.Unmarshal(data, &m))
	return m
}

// altered returns a copy of a manifest with one change, as the registry's owner could make it.
func altered(t *testing.T, data []byte, change func(*ocispec.Manifest)) bundle.Blob {
	t.Helper()
	m := decodeManifest(t, data)
	change(&m)
	encoded, err := json.Marshal(m)
	must(t, err)
	return bundle.NewBlob(ocispec.MediaTypeImageManifest, encoded)
}

func flip(text string, field string) string {
	at := strings.Index(text, field) + len(field) + 20
	flipped := byte('A')
	if text[at] == flipped {
		flipped = 'B'
	}
	return text[:at] + string(flipped) + text[at+1:]
}

// forged returns a bundle that refers to documents in the registry. Its signed predicate is changed, or it is signed
// with a different key.
func forged(
	t *testing.T, f *fleet.Fleet, r *fleet.Runtime, signer trust.Signer, change func(*bundle.Predicate),
) bundle.Blob {
	t.Helper()
	fetched, err := r.Desired(t.Context())
	must(t, err)
	rootFile, err := os.ReadFile(filepath.Join(f.Keys(), "root.json"))
	must(t, err)
	root, err := trust.ParseRoot(rootFile)
	must(t, err)
	verified, err := bundle.Adopt(fetched, r.ID, root)
	must(t, err)
	predicate := verified.Statement.Predicate
	predicate.Sequence++
	change(&predicate)
	composed, err := bundle.Compose(bundle.Documents{
		State: bundle.Blob{Descriptor: verified.Config}, Catalog: bundle.Blob{Descriptor: verified.Catalog},
	}, predicate, signer)
	must(t, err)
	return composed
}

// signAgain changes the statement of a manifest and signs it again, as an attacker or a publisher of a newer version
// could.
func signAgain(t *testing.T, manifest []byte, signer trust.Signer, change func(predicate map[string]any)) bundle.Blob {
	t.Helper()
	return altered(t, manifest, func(m *ocispec.Manifest) {
		var attestation struct {
			MediaType            string          `json:"mediaType"`
			VerificationMaterial json.RawMessage `json:"verificationMaterial"`
			Envelope             struct {
				Payload     []byte              `json:"payload"`
				PayloadType string              `json:"payloadType"`
				Signatures  []map[string][]byte `json:"signatures"`
			} `json:"dsseEnvelope"`
		}
		must(t, json.Unmarshal([]byte(m.Annotations[bundle.AnnotationAttestation]), &attestation))
		envelope := &attestation.Envelope
		var statement map[string]any
		must(t, json.Unmarshal(envelope.Payload, &statement))
		change(statement["predicate"].(map[string]any))
		var err error
		envelope.Payload, err = json.Marshal(statement)
		must(t, err)
		// Source: DSSE v1.0.2, protocol, PAE.
		signed := fmt.Sprintf("DSSEv1 %d %s %d %s", len(envelope.PayloadType), envelope.PayloadType,
			len(envelope.Payload), envelope.Payload)
		signature, err := signer.SignMessage(strings.NewReader(signed))
		must(t, err)
		envelope.Signatures = []map[string][]byte{{"sig": signature}}
		data, err := json.Marshal(attestation)
		must(t, err)
		m.Annotations[bundle.AnnotationAttestation] = string(data)
	})
}

func publisherKey(t *testing.T, f *fleet.Fleet) trust.Signer {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(f.Keys(), "publisher.key"))
	must(t, err)
	signer, err := trust.LoadSigner(file)
	must(t, err)
	return signer
}

func TestAgentRefusesHostileBundles(t *testing.T) {
	ctx := t.Context()
	smoke := []refusal.Reason{refusal.WrongRuntime, refusal.Rollback, refusal.UnknownKey, refusal.WrongDigest}
	f := newFleet(t, fleet.Options{})
	victim := runtimeWith(t, f, "victim", map[string]string{"scaler": "1.7.0"})
	other := runtimeWith(t, f, "other", map[string]string{"mailer": "1.0.0"})
	untilQuiet(t, f)
	old, err := victim.Desired(ctx)
	must(t, err)
	promote(t, f, "1.8.0")
	must(t, victim.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
	untilQuiet(t, f)
	f.Publisher().Stop() // a running publisher would replace the attacker's bundle
	honest, err := victim.Desired(ctx)
	must(t, err)
	foreign, err := other.Desired(ctx)
	must(t, err)
	stranger, err := trust.GenerateKey()
	must(t, err)
	strangerKey, err := trust.LoadSigner(stranger)
	must(t, err)
	repository, err := f.Place.Repository(ctx, bundle.DesiredRepository("victim"))
	must(t, err)
	alteredConfig := bundle.NewBlob(bundle.MediaTypeDesiredState, []byte(`{"apiVersion":"kyma-pull.dev/v1"}`))
	must(t, store.PushBlob(ctx, repository, alteredConfig))
	alteredCatalog := bundle.NewBlob(bundle.MediaTypeCatalog, []byte(`{"apiVersion":"kyma-pull.dev/v1"}`))
	must(t, store.PushBlob(ctx, repository, alteredCatalog))
	for _, d := range decodeManifest(t, foreign.Bytes).Layers {
		mountFrom(t, f, repository, "other", d)
	}
	mountFrom(t, f, repository, "other", decodeManifest(t, foreign.Bytes).Config)

	newer := forged(t, f, victim, publisherKey(t, f), func(*bundle.Predicate) {})
	report, err := bundle.ComposeReport(bundle.Report{Runtime: "victim", Sequence: 1, Time: time.Now().UTC()},
		publisherKey(t, f))
	must(t, err)
	reports, err := f.Place.Repository(ctx, bundle.ReportRepository("victim"))
	must(t, err)
	newest, err := store.Fetch(ctx, reports, bundle.TagLatest)
	must(t, err)
	must(t, store.PushBlob(ctx, repository, bundle.EmptyBlob()))

	for _, c := range []struct {
		name   string
		put    bundle.Blob
		reason refusal.Reason
	}{
		{
			"another runtime's bundle", bundle.NewBlob(ocispec.MediaTypeImageManifest, foreign.Bytes),
			refusal.WrongRuntime,
		},
		{"an older bundle", bundle.NewBlob(ocispec.MediaTypeImageManifest, old.Bytes), refusal.Rollback},
		{"an expired bundle", forged(t, f, victim, publisherKey(t, f), func(p *bundle.Predicate) {
			p.IssuedAt, p.ExpiresAt = time.Now().Add(-2*time.Hour).UTC(), time.Now().Add(-time.Hour).UTC()
		}), refusal.Expired},
		{
			"another bundle with the same sequence",
			forged(t, f, victim, publisherKey(t, f),
				func(p *bundle.Predicate) { p.Sequence--; p.KymaGeneration += 100 }), refusal.Equivocation,
		},
		{"bundle issued in the future", forged(t, f, victim, publisherKey(t, f), func(p *bundle.Predicate) {
			p.IssuedAt, p.ExpiresAt = time.Now().Add(25*time.Hour).UTC(), time.Now().Add(48*time.Hour).UTC()
		}), refusal.NotYetIssued},
		{
			"a bundle for another cluster",
			forged(t, f, victim, publisherKey(t, f), func(p *bundle.Predicate) { p.Audience.ClusterUID = "another" }),
			refusal.WrongCluster,
		},
		{
			"a bundle with another epoch",
			forged(t, f, victim, publisherKey(t, f), func(p *bundle.Predicate) { p.Epoch++ }), refusal.WrongEpoch,
		},
		{"a bundle that requires an unknown feature",
			signAgain(t, newer.Bytes, publisherKey(t, f), func(predicate map[string]any) {
				predicate["critical"] = []string{"teleport"}
			}), refusal.UnsupportedFeature},
		{
			"a bundle signed by an unknown key", forged(t, f, victim, strangerKey, func(*bundle.Predicate) {}),
			refusal.UnknownKey,
		},
		{"a bundle with a flipped byte in the statement", altered(t, honest.Bytes, func(m *ocispec.Manifest) {
			m.Annotations[bundle.AnnotationAttestation] = flip(m.Annotations[bundle.AnnotationAttestation],
				`"payload":"`)
		}), refusal.BadSignature},
		{"a bundle with a flipped byte in the signature", altered(t, honest.Bytes, func(m *ocispec.Manifest) {
			m.Annotations[bundle.AnnotationAttestation] = flip(m.Annotations[bundle.AnnotationAttestation], `"sig":"`)
		}), refusal.BadSignature},
		{
			"bundle without an attestation",
			altered(t, honest.Bytes, func(m *ocispec.Manifest) { m.Annotations = nil }), refusal.Unsigned,
		},
		{
			"newer bundle whose config was replaced",
			altered(t, newer.Bytes, func(m *ocispec.Manifest) { m.Config = alteredConfig.Descriptor }),
			refusal.WrongDigest,
		},
		{
			"newer bundle whose catalog was replaced",
			altered(t, newer.Bytes, func(m *ocispec.Manifest) { m.Layers[0] = alteredCatalog.Descriptor }),
			refusal.WrongDigest,
		},
		{
			"current bundle whose config was replaced",
			altered(t, honest.Bytes, func(m *ocispec.Manifest) { m.Config = alteredConfig.Descriptor }),
			refusal.WrongDigest,
		},
		{
			"manifest with case-variant keys",
			bundle.NewBlob(ocispec.MediaTypeImageManifest,
				[]byte(strings.Replace(string(newer.Bytes), `"annotations":{`, `"Annotations":{},"annotations":{`, 1))),
			refusal.Malformed,
		},
		{"a report statement signed by the publisher", altered(t, newer.Bytes, func(m *ocispec.Manifest) {
			m.Annotations[bundle.AnnotationAttestation] = decodeManifest(t,
				report.Bytes).Annotations[bundle.AnnotationReport]
		}), refusal.PredicateType},
		{"the runtime's own report", bundle.NewBlob(ocispec.MediaTypeImageManifest, newest.Bytes), refusal.MediaType},
		{
			"bundle with another artifact type",
			altered(t, honest.Bytes, func(m *ocispec.Manifest) { m.ArtifactType = bundle.ArtifactTypeReport }),
			refusal.MediaType,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !slices.Contains(smoke, c.reason) {
				suite.Long(t) // the short suite runs TestVerifyAcceptsOnlyValidBundles and TestRefusedBundleWritesNothing
			}
			before := objectVersions(t, victim)
			must(t, victim.Put(ctx, c.put))
			must(t, victim.UntilAccepted(ctx, metav1.ConditionFalse, string(c.reason)))
			if after := objectVersions(t, victim); after != before {
				t.Errorf("objects of the runtime changed: %s to %s", before, after)
			}
			must(t, victim.Put(ctx, bundle.NewBlob(ocispec.MediaTypeImageManifest, honest.Bytes)))
			must(t, victim.UntilAccepted(ctx, metav1.ConditionTrue, "Accepted"))
		})
	}
	t.Run("missing bundle is reported", func(t *testing.T) {
		before := objectVersions(t, victim)
		asked := make(chan struct{}, 100)
		f.Registry.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(r.URL.Path, "/runtimes/victim/manifests/") {
				select {
				case asked <- struct{}{}:
				default:
				}
				http.Error(w, `{"errors":[{"code":"MANIFEST_UNKNOWN"}]}`, http.StatusNotFound)
				return true
			}
			return false
		})
		for range 3 {
			<-asked
		}
		f.Registry.Intercept(nil)
		if after := objectVersions(t, victim); after != before {
			t.Errorf("objects of the runtime changed: %s to %s", before, after)
		}
	})
	t.Run("registry returns malformed responses", func(t *testing.T) {
		before := objectVersions(t, victim)
		asked := make(chan struct{}, 100)
		f.Registry.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			select {
			case asked <- struct{}{}:
			default:
			}
			_, _ = fmt.Fprint(w, "<html>hello</html>")
			return true
		})
		for range 3 {
			<-asked
		}
		f.Registry.Intercept(nil)
		if after := objectVersions(t, victim); after != before {
			t.Errorf("objects of the runtime changed: %s to %s", before, after)
		}
	})
	t.Run("control plane reports the refused bundles", func(t *testing.T) {
		must(t, victim.Put(ctx, bundle.NewBlob(ocispec.MediaTypeImageManifest, foreign.Bytes)))
		must(t, victim.UntilAccepted(ctx, metav1.ConditionFalse, string(refusal.WrongRuntime)))
		must(t, f.StartPublisher())
		until(t, 30*time.Second, "an Event on the control plane's Kyma reports a refused bundle",
			func() (bool, string) {
				var events eventsv1.EventList
				if err := f.Control.List(ctx, &events); err != nil {
					return false, err.Error()
				}
				for _, e := range events.Items {
					if e.Reason == "BundleRefused" && e.Regarding.Name == "victim" &&
						strings.Contains(e.Note, string(refusal.WrongRuntime)) {
						return true, ""
					}
				}
				return false, fmt.Sprint(len(events.Items), " other events")
			})
		// The publisher has replaced the refused bundle with a valid one.
		must(t, victim.UntilAccepted(ctx, metav1.ConditionTrue, "Accepted"))
	})
}
