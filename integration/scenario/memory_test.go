package scenario

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// hidden hides components: it responds to requests for them with MANIFEST_UNKNOWN.
func hidden(w http.ResponseWriter, request *http.Request) bool {
	if !strings.HasPrefix(request.URL.Path, "/v2/modules/") || !strings.Contains(request.URL.Path, "/manifests/") {
		return false
	}
	http.Error(w, `{"errors":[{"code":"MANIFEST_UNKNOWN"}]}`, http.StatusNotFound)
	return true
}

// registryBundle reads and verifies the bundle in a runtime's repository.
func registryBundle(t *testing.T, f *fleet.Fleet, r *fleet.Runtime) (bundle.Bundle, error) {
	t.Helper()
	fetched, err := r.Desired(t.Context())
	if err != nil {
		return bundle.Bundle{}, err
	}
	verified, err := bundle.Adopt(fetched, r.ID, rootOf(t, f))
	if err != nil {
		return bundle.Bundle{}, err
	}
	repository, err := f.Place.Repository(t.Context(), bundle.DesiredRepository(r.ID))
	must(t, err)
	return store.FetchBundle(t.Context(), repository, verified)
}

// pushNewer signs the documents as a newer bundle, pushes the bundle to the runtime's repository, and returns its
// manifest.
func pushNewer(
	t *testing.T, f *fleet.Fleet, r *fleet.Runtime, documents bundle.Documents, signer trust.Signer,
	change func(*bundle.Predicate),
) bundle.Blob {
	t.Helper()
	fetched, err := r.Desired(t.Context())
	must(t, err)
	predicate := predicateOf(t, f, r, bundle.Blob(fetched))
	predicate.Sequence, predicate.IssuedAt = max(predicate.Sequence+1, time.Now().UnixMilli()), time.Now().UTC()
	change(&predicate)
	manifest, err := bundle.Compose(documents, predicate, signer)
	must(t, err)
	repository, err := f.Place.Repository(t.Context(), bundle.DesiredRepository(r.ID))
	must(t, err)
	must(t, store.PushBlob(t.Context(), repository, documents.State))
	must(t, store.PushBlob(t.Context(), repository, documents.Catalog))
	return manifest
}

// untilReplaced waits until the runtime's repository has another bundle and the agent has applied it.
func untilReplaced(t *testing.T, f *fleet.Fleet, r *fleet.Runtime, manifest bundle.Blob) bundle.Bundle {
	t.Helper()
	var next bundle.Bundle
	until(t, 30*time.Second, "another bundle is published and applied", func() (bool, string) {
		var err error
		if next, err = registryBundle(t, f, r); err != nil || next.Digest == manifest.Descriptor.Digest {
			return false, fmt.Sprint(err)
		}
		statement, err := inForce(t, r)
		return err == nil && statement.Predicate.Sequence == next.Statement.Predicate.Sequence,
			fmt.Sprint(err, statement.Predicate.Sequence)
	})
	return next
}

func deviations(t *testing.T, address, reason string) bool {
	t.Helper()
	return scraped(t, address, `kyma_pull_publisher_registry_deviations_total{reason="`+reason+`"}`) != ""
}

// The publisher must not reuse content from a bundle that an attacker pushed. The attacker owns the registry, or has
// stolen a key that was rotated later.
func TestRegistryIsNeverTrustedForContent(t *testing.T) {
	suite.Long(t)
	ctx := t.Context()
	metrics := freeAddress(t)
	f := newFleet(t, fleet.Options{PublisherFlags: []string{
		"--set", "keys-poll-interval=1s", "--set", "component-poll-interval=1s", "--set", "registry-check-interval=1s",
		"--metrics-bind-address", metrics, "--metrics-auth=false",
	}})
	r := runtimeWith(t, f, "victim", map[string]string{"scaler": "1.7.0"})
	untilQuiet(t, f)
	first, err := r.Desired(ctx)
	must(t, err)
	old := bundle.NewBlob(ocispec.MediaTypeImageManifest, first.Bytes)
	stolen := publisherKey(t, f)
	must(t, f.CreatePolicy(ctx, "scaler", v1alpha1.Course{
		Waves: []v1alpha1.Wave{{Name: "all", Percent: new(int32(100))}},
	}))
	promote(t, f, "1.8.0")
	must(t, r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
	untilQuiet(t, f)
	// stays checks that the runtime did not change and that the control plane still records the published version.
	stays := func(t *testing.T, before string) {
		t.Helper()
		if after := objectVersions(t, r); after != before {
			t.Errorf("objects of the runtime changed: %s to %s", before, after)
		}
		record, err := r.Record(ctx)
		must(t, err)
		if p := record.Status.Runtime.Published; p == nil || p.Versions["scaler"] != "1.8.0" {
			t.Errorf("the control plane recorded unexpected bundle %+v", p)
		}
	}
	stated := func(t *testing.T, reason, log string) {
		t.Helper()
		untilEvent(t, f, r.ID, reason, "runtime victim: the registry has")
		if !deviations(t, metrics, reason) {
			t.Errorf("no metric reports %s", reason)
		}
		if !strings.Contains(log, reason) {
			t.Errorf("the log does not contain %s:\n%s", reason, log)
		}
		until(t, 30*time.Second, "the condition reports a consistent registry", func() (bool, string) {
			c := conditionOf(t, r, v1beta2.ConditionRegistry)
			return c.Status == metav1.ConditionTrue && c.Reason == v1beta2.ReasonConsistent, c.Reason + ": " + c.Message
		})
	}

	t.Run("old bundle is replaced at startup while components are hidden", func(t *testing.T) {
		before, log := objectVersions(t, r), len(f.Publisher().Log())
		must(t, f.Publisher().Stop())
		f.Registry.Intercept(hidden)
		defer f.Registry.Intercept(nil)
		must(t, r.Put(ctx, old))
		must(t, r.UntilAccepted(ctx, metav1.ConditionFalse, string(refusal.Rollback)))
		must(t, f.StartPublisher())
		next := untilReplaced(t, f, r, old)
		for _, m := range next.State.Manifests {
			t.Errorf("the new bundle contains %s %s, which only the old bundle names", m.Module, m.Version)
		}
		stays(t, before)
		stated(t, v1beta2.ReasonBundleReplayed, f.Publisher().Log()[log:])
		stays(t, before)
	})
	must(t, r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
	untilQuiet(t, f)
	t.Run("old bundle is replaced at run time while components are hidden", func(t *testing.T) {
		before, log := objectVersions(t, r), len(f.Publisher().Log())
		f.Registry.Intercept(hidden)
		defer f.Registry.Intercept(nil)
		until(t, 30*time.Second, "the publisher cannot find the component", func() (bool, string) {
			record, err := r.Record(ctx)
			if err != nil {
				return false, err.Error()
			}
			m := moduleOf(record, "scaler")
			return strings.Contains(m.Message, "component version not found"), m.Message
		})
		must(t, r.Put(ctx, old))
		next := untilReplaced(t, f, r, old)
		if len(next.State.Manifests) != 1 || next.State.Manifests[0].Version != "1.8.0" {
			t.Errorf("the new bundle contains unexpected manifests %+v", next.State.Manifests)
		}
		stays(t, before)
		stated(t, v1beta2.ReasonBundleReplayed, f.Publisher().Log()[log:])
	})
	t.Run("bundle signed by a rotated key with the largest sequence is replaced",
		func(t *testing.T) {
			changeKeys(t, f, "rotate", "publisher")
			changeKeys(t, f, "rotate", "publisher")
			untilRoot(t, r, 3)
			untilQuiet(t, f)
			honest, err := registryBundle(t, f, r)
			must(t, err)
			theirs := honest.State
			theirs.Manifests = append([]bundle.Manifest{}, honest.State.Manifests...)
			theirs.Manifests[0].Spec.LocalizedImages = []string{"thief.example/scaler:1.8.0"}
			documents, err := bundle.NewDocuments(theirs, bundle.Catalog{})
			must(t, err)
			theft := pushNewer(t, f, r, documents, stolen, func(p *bundle.Predicate) { p.Sequence = math.MaxInt64 - 1 })
			before, log := objectVersions(t, r), len(f.Publisher().Log())
			for _, restarted := range []bool{true, false} {
				if restarted {
					must(t, f.Publisher().Stop())
				}
				f.Registry.Intercept(hidden)
				must(t, r.Put(ctx, theft))
				if restarted {
					must(t, f.StartPublisher())
				}
				next := untilReplaced(t, f, r, theft)
				f.Registry.Intercept(nil)
				if p := next.Statement.Predicate; p.Sequence > time.Now().Add(time.Hour).UnixMilli() {
					t.Errorf("the agent applied sequence %d", p.Sequence)
				}
				for _, m := range next.State.Manifests {
					if fmt.Sprint(m.Spec.LocalizedImages) == fmt.Sprint(theirs.Manifests[0].Spec.LocalizedImages) {
						t.Errorf("the publisher signed the thief's content: %+v", m)
					}
				}
				stays(t, before)
				until(t, 30*time.Second, "the publisher publishes scaler again", func() (bool, string) {
					next, err := registryBundle(t, f, r)
					return err == nil && len(next.State.Manifests) == 1, fmt.Sprint(err, len(next.State.Manifests))
				})
			}
			stated(t, v1beta2.ReasonBundleForeign, f.Publisher().Log()[log:])
		})
	t.Run("agent refuses a downgrade that the statement does not list", func(t *testing.T) {
		untilQuiet(t, f)
		before := objectVersions(t, r)
		must(t, f.Publisher().Stop())
		downgrade := pushNewer(t, f, r, documentsOf(t, f, r, old), publisherKey(t, f), func(*bundle.Predicate) {})
		must(t, r.Put(ctx, downgrade))
		must(t, r.UntilAccepted(ctx, metav1.ConditionFalse, string(refusal.Downgrade)))
		stays(t, before)
		must(t, f.StartPublisher())
		untilEvent(t, f, r.ID, "BundleRefused", "(Downgrade): ")
		untilReplaced(t, f, r, downgrade)
		stays(t, before)
		must(t, r.UntilAccepted(ctx, metav1.ConditionTrue, "Accepted"))
	})
	t.Run("offline agent follows an undone rollout", func(t *testing.T) {
		must(t, r.Agent().Stop())
		ask(t, f, "rollout", "undo", firstRollout)
		until(t, 30*time.Second, "the bundle lists the rollback of scaler", func() (bool, string) {
			next, err := registryBundle(t, f, r)
			if err != nil {
				return false, err.Error()
			}
			back := next.Statement.Predicate.Rollback
			return len(back) == 1 && back[0] == bundle.Rollback{Module: "scaler", From: "1.8.0", To: "1.7.0"},
				fmt.Sprint(back)
		})
		// label changes a setting, so that the publisher publishes further bundles, which the stopped agent misses.
		label := func(value string) {
			record, err := r.Record(ctx)
			must(t, err)
			before := record.DeepCopy()
			metav1.SetMetaDataAnnotation(&record.ObjectMeta, "note", value)
			record.Spec.Channel = value
			must(t, f.Control.Patch(ctx, record, client.MergeFrom(before)))
		}
		label("fast")
		label("regular")
		untilQuiet(t, f)
		must(t, r.StartAgent())
		must(t, r.UntilState(ctx, "scaler", "1.7.0", v1beta2.StateReady))
		must(t, r.UntilAccepted(ctx, metav1.ConditionTrue, "Accepted"))
	})
}

// documentsOf returns a bundle's documents in the runtime's repository.
func documentsOf(t *testing.T, f *fleet.Fleet, r *fleet.Runtime, manifest bundle.Blob) bundle.Documents {
	t.Helper()
	repository, err := f.Place.Repository(t.Context(), bundle.DesiredRepository(r.ID))
	must(t, err)
	image := decodeManifest(t, manifest.Bytes)
	read := func(d ocispec.Descriptor) bundle.Blob {
		data, err := store.FetchBlob(t.Context(), repository, d, bundle.MaxDocumentBytes)
		must(t, err)
		return bundle.Blob{Descriptor: d, Bytes: data}
	}
	return bundle.Documents{State: read(image.Config), Catalog: read(image.Layers[0])}
}
