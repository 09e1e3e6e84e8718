package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"oras.land/oras-go/v2"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// stolenKeyAttack is an attack with the publisher's stolen key. The attacker can sign any desired state for a runtime.
type stolenKeyAttack struct {
	*testing.T
	fleet      *fleet.Fleet
	runtime    *fleet.Runtime
	repository oras.Target
}

// verifiedBundle returns the verified bundle in the registry.
func (h stolenKeyAttack) verifiedBundle() bundle.Bundle {
	h.Helper()
	fetched, err := h.runtime.Desired(h.Context())
	must(h.T, err)
	verified, err := bundle.Adopt(fetched, h.runtime.ID, rootOf(h.T, h.fleet))
	must(h.T, err)
	opened, err := store.FetchBundle(h.Context(), h.repository, verified)
	must(h.T, err)
	return opened
}

// put signs a desired state as a newer bundle and pushes the bundle.
func (h stolenKeyAttack) put(from bundle.Bundle, state bundle.DesiredState) {
	h.Helper()
	documents, err := bundle.NewDocuments(state, from.Modules)
	must(h.T, err)
	predicate := from.Statement.Predicate
	predicate.Sequence = bundle.NextSequence(predicate.Sequence, time.Now())
	predicate.IssuedAt, predicate.RootVersion = time.Now().UTC(), rootOf(h.T, h.fleet).Version
	predicate.Rollback = nil
	for _, m := range state.Manifests { // the attacker can also declare a downgrade as a rollback
		if has := versionIn(from, m.Module); bundle.IsOlder(m.Version, has) {
			predicate.Rollback = append(predicate.Rollback, bundle.Rollback{Module: m.Module, From: has, To: m.Version})
		}
	}
	manifest, err := bundle.Compose(documents, predicate, publisherKey(h.T, h.fleet))
	must(h.T, err)
	for _, blob := range []bundle.Blob{documents.State, documents.Catalog} {
		must(h.T, store.PushBlob(h.Context(), h.repository, blob))
	}
	must(h.T, h.runtime.Put(h.Context(), manifest))
}

func versionIn(of bundle.Bundle, module string) string {
	for _, m := range of.State.Manifests {
		if m.Module == module {
			return m.Version
		}
	}
	return ""
}

func TestStolenPublisherKeyCannotInstallUnreleasedContent(t *testing.T) {
	ctx := t.Context()
	key, err := sample.NewSigner("release")
	must(t, err)
	public := filepath.Join(t.TempDir(), "release.pem")
	must(t, os.WriteFile(public, key.PublicPEM(), 0o600))
	f := startFleet(t, fleet.Options{
		PublisherFlags: []string{"--set", "keys-poll-interval=1s", "--set", "component-poll-interval=1s"},
	})
	changeKeys(t, f, "release", "kyma-pull.dev/module/", "--public-key", public)
	released := func(version string) sample.Version {
		v := sample.Scaler(version)
		v.Signed = []sample.Signer{key}
		image := "example.org/scaler:" + version
		v.Manifest = strings.ReplaceAll(v.Manifest, image, image+"@sha256:"+strings.Repeat("a", 64))
		return v
	}
	must(t, f.Offer(ctx, released("1.7.0"), released("1.8.0"), sample.Mailer("1.0.0")))
	promote(t, f, "1.7.0")
	must(t, f.Release(ctx, "mailer", sample.Mailer("").Component(), sample.Channel("regular", "1.0.0")))
	r, err := f.AddRuntime(ctx, "berlin", "regular", "scaler", "mailer")
	must(t, err)
	must(t, r.UntilState(ctx, "scaler", "1.7.0", v1beta2.StateReady))
	until(t, 60*time.Second, "only the unreleased module reports a problem", func() (bool, string) {
		record, err := r.Record(ctx)
		return err == nil && strings.Contains(fmt.Sprint(record.Status.Modules), "is signed by 0 of the release keys"),
			fmt.Sprint(err, record.Status.Modules)
	})
	repository, err := f.Place.Repository(ctx, bundle.DesiredRepository("berlin"))
	must(t, err)
	attacker := stolenKeyAttack{t, f, r, repository}
	untilQuiet(t, f)
	old := attacker.verifiedBundle()
	changeKeys(t, f, "floor", sample.Scaler("").Component(), "1.8.0")
	until(t, 60*time.Second, "the publisher stops publishing a version below the minimum", func() (bool, string) {
		record, err := r.Record(ctx)
		return err == nil && strings.Contains(fmt.Sprint(record.Status.Modules), "is older than 1.8.0"),
			fmt.Sprint(err, record.Status.Modules)
	})
	promote(t, f, "1.8.0")
	must(t, r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
	untilQuiet(t, f)
	f.Publisher().Stop()
	honest := attacker.verifiedBundle()
	content := bundle.NewBlob("application/yaml",
		[]byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: evil, namespace: kyma-system}\n"))
	must(t, store.PushBlob(ctx, repository, content))

	for name, state := range map[string]func() bundle.DesiredState{
		"content that is not part of the release": func() bundle.DesiredState {
			state := honest.State
			m := state.Manifests[0]
			m.Content = append([]bundle.Content{}, m.Content...)
			m.Content[0].Digest, m.Content[0].SizeBytes, m.Content[0].Repository = content.Descriptor.Digest,
				content.Descriptor.Size, f.Place.Name(bundle.DesiredRepository("berlin"))
			m.Spec.Install.Source.Raw = []byte(strings.ReplaceAll(string(m.Spec.Install.Source.Raw),
				honest.State.Manifests[0].Content[0].Digest.String(), content.Descriptor.Digest.String()))
			state.Manifests = []bundle.Manifest{m}
			return state
		},
		"component without a release": func() bundle.DesiredState {
			state := honest.State
			m := state.Manifests[0]
			m.Component = "somebody.else/scaler"
			state.Manifests = []bundle.Manifest{m}
			return state
		},
		"default CR that is not part of the release": func() bundle.DesiredState {
			state := honest.State
			m := state.Manifests[0]
			m.Spec.Resource = m.Spec.Resource.DeepCopy()
			m.Spec.Resource.SetName("evil")
			state.Manifests = []bundle.Manifest{m}
			return state
		},
		"released component under the name of another module": func() bundle.DesiredState {
			state := honest.State
			m := state.Manifests[0]
			m.Module, m.Name = "mailer", "mailer"
			state.Manifests = []bundle.Manifest{m}
			return state
		},
		"release below the minimum version": func() bundle.DesiredState { return old.State },
	} {
		t.Run(name, func(t *testing.T) {
			before := objectVersions(t, r)
			attacker := stolenKeyAttack{t, f, r, repository}
			attacker.put(honest, state())
			must(t, r.UntilAccepted(ctx, metav1.ConditionFalse, string(refusal.NotReleased)))
			if after := objectVersions(t, r); after != before {
				t.Errorf("objects of the runtime changed: %s to %s", before, after)
			}
			// The agent accepts a released version even if the thief signed the bundle.
			attacker.put(honest, honest.State)
			must(t, r.UntilAccepted(ctx, metav1.ConditionTrue, "Accepted"))
		})
	}
}
