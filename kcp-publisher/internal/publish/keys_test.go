package publish

import (
	"crypto"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sigstore/sigstore/pkg/signature"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

func successor(t *testing.T, rootKey trust.Signer, root trust.Root, publishers ...trust.Signer) trust.Root {
	t.Helper()
	draft, err := root.Draft(noon.AddDate(1, 0, 0))
	must(t, err)
	for _, listed := range root.Publishers() {
		must(t, draft.Remove(trust.RolePublisher, listed))
	}
	for _, signer := range publishers {
		public, err := signer.PublicKey()
		must(t, err)
		must(t, draft.Add(trust.RolePublisher, public))
	}
	must(t, draft.Sign(rootKey))
	data, err := draft.Bytes()
	must(t, err)
	next, err := root.Next(data)
	must(t, err)
	return next
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func refusedFor(t *testing.T, what string, err error, reason refusal.Reason, message string) {
	t.Helper()
	if refused := refusal.Of(err); refused == nil || refused.Reason != reason ||
		!strings.Contains(err.Error(), message) {
		t.Errorf("%s: got %v, want %s with %q", what, err, reason, message)
	}
}

// The key folder has an outdated root, a key that the root does not list, or an expired root.
func TestPublisherDoesNotPublishWithRefusedKeys(t *testing.T) {
	f := newFleet(t)
	rootKey := trusttest.NewSigner(t)
	public, err := f.signer.PublicKey()
	must(t, err)
	data, err := trusttest.NewRoot(rootKey, []crypto.PublicKey{public}, noon.AddDate(1, 0, 0))
	must(t, err)
	f.root, err = trust.ParseRoot(data)
	must(t, err)
	p := f.started()
	f.publish(p, plan.Runtime{ID: "berlin"}, "regular")
	check := func(changed bool) error {
		t.Helper()
		got, err := p.CheckKeys(t.Context())
		if got != changed {
			t.Errorf("got changed %t, want %t", got, changed)
		}
		return err
	}
	must(t, check(false))

	second := trusttest.NewSigner(t)
	newest := successor(t, rootKey, f.root, f.signer, second)
	must(t, store.PushRoot(t.Context(), f.place(), newest)) // as a publisher with a newer key folder does
	refusedFor(t, "newer root", check(true), refusal.BadRoot, "trust:root-2 is newer")
	_, err = f.try(p, plan.Runtime{ID: "berlin"}, "fast")
	refusedFor(t, "publishing", err, refusal.BadRoot, "trust:root-2 is newer")
	before := f.lying("berlin")
	_, err = f.try(f.started(), plan.Runtime{ID: "berlin"}, "fast")
	refusedFor(t, "publishing after a restart", err, refusal.BadRoot, "trust:root-2 is newer")
	if f.lying("berlin") != before {
		t.Error("a bundle was pushed with an outdated root")
	}

	replaced, err := p.ReplaceKeys(t.Context(), Keys{Signer: second, Root: newest})
	if err != nil || !replaced {
		t.Errorf("newer keys: got replaced %t, %v", replaced, err)
	}
	must(t, check(true))
	f.publish(p, plan.Runtime{ID: "berlin"}, "fast")

	revoked := successor(t, rootKey, newest, f.signer)
	if _, err := p.ReplaceKeys(t.Context(), Keys{Signer: second, Root: revoked}); err != nil {
		t.Errorf("replace keys with a root without the publisher key: got error %v", err)
	}
	refusedFor(t, "key removed from its role", check(true), refusal.UnknownKey, "is not listed")
	_, err = f.try(p, plan.Runtime{ID: "berlin"}, "regular")
	refusedFor(t, "publishing with a removed key", err, refusal.UnknownKey, "is not listed")
	if _, _, err := store.FetchRoot(t.Context(), f.place(), 3); err != nil {
		t.Errorf("the root without the key was not published: %v", err)
	}

	if _, err := p.ReplaceKeys(t.Context(), Keys{Signer: f.signer, Root: revoked}); err != nil {
		t.Error(err)
	}
	must(t, check(true))
	f.publish(p, plan.Runtime{ID: "berlin"}, "regular")
	f.now = noon.AddDate(1, 0, 0).Add(time.Second)
	_, err = f.try(p, plan.Runtime{ID: "berlin"}, "fast")
	refusedFor(t, "publishing with an expired root", err, refusal.RootExpired, "keys rotate")
	refusedFor(t, "expired root", check(true), refusal.RootExpired, "keys rotate")
}

// duringSigning calls a function before each signature.
type duringSigning struct {
	trust.Signer
	do func()
}

func (d duringSigning) SignMessage(message io.Reader, options ...signature.SignOption) ([]byte, error) {
	d.do()
	return d.Signer.SignMessage(message, options...)
}

// An operator replaces the keys while the publisher signs a bundle. The publisher must not push this bundle, because
// agents would refuse the signature of a revoked key.
func TestReplacedKeysDoNotSignBundles(t *testing.T) {
	f := newFleet(t)
	rootKey, first, second := trusttest.NewSigner(t), trusttest.NewSigner(t), trusttest.NewSigner(t)
	data, err := trusttest.NewRoot(rootKey, []crypto.PublicKey{trusttest.PublicKey(t, first)}, noon.AddDate(1, 0, 0))
	must(t, err)
	f.root, err = trust.ParseRoot(data)
	must(t, err)
	newest := successor(t, rootKey, f.root, second)
	for _, began := range []bool{false, true} {
		f.dir = filepath.Join(t.TempDir(), "registry")
		replace := func() {}
		f.signer = duringSigning{first, func() { replace() }}
		p := f.started()
		if began {
			f.publish(p, runtimeNamed("berlin"), "regular")
		}
		replace = sync.OnceFunc(func() {
			if replaced, err := p.ReplaceKeys(t.Context(),
				Keys{Signer: second, Root: newest, FormerRoots: []trust.Root{f.root}}); !replaced || err != nil {
				t.Errorf("replace keys: got replaced %t, error %v", replaced, err)
			}
		})
		f.publish(p, runtimeNamed("berlin"), "fast")
		repository, err := f.place().Repository(t.Context(), bundle.DesiredRepository("berlin"))
		must(t, err)
		found, _, err := readCached(t.Context(), repository, "berlin", nil, newest, nil)
		if want := trusttest.Thumbprint(t, second); err != nil || found.Key != want || found.Bundle == nil {
			t.Errorf("published before %t: got a bundle signed with %s, %v, want %s", began, found.Key, err, want)
		}
	}
}

// A standby process must load changed keys even while the registry is down. Otherwise, it could still use revoked keys
// when it becomes the leader.
func TestStandbyReplacesKeysDuringRegistryOutage(t *testing.T) {
	f := newFleet(t)
	rootKey, second := trusttest.NewSigner(t), trusttest.NewSigner(t)
	data, err := trusttest.NewRoot(rootKey, []crypto.PublicKey{trusttest.PublicKey(t, f.signer)}, noon.AddDate(1, 0, 0))
	must(t, err)
	f.root, err = trust.ParseRoot(data)
	must(t, err)
	p := f.started()
	newest := successor(t, rootKey, f.root, second)
	keys := Keys{Signer: second, Root: newest, FormerRoots: []trust.Root{f.root}}
	must(t, os.WriteFile(f.dir, nil, 0o600)) // a file in place of the folder makes the registry unavailable
	if replaced, err := p.ReplaceKeys(t.Context(), keys); !replaced || err == nil {
		t.Errorf("unavailable registry: got replaced %t, %v", replaced, err)
	}
	if got := p.Root().Version; got != newest.Version {
		t.Errorf("got root of trust version %d, want %d", got, newest.Version)
	}
	must(t, os.Remove(f.dir))
	if replaced, err := p.ReplaceKeys(t.Context(), keys); replaced || err != nil {
		t.Errorf("available registry: got replaced %t, %v", replaced, err)
	}
	f.publish(p, plan.Runtime{ID: "berlin"}, "regular")
}

// A client with write access to the registry can push an unrelated root of trust to the tag of the next version. The
// publisher must ignore this root of trust.
func TestUnrelatedRootDoesNotStopPublisher(t *testing.T) {
	f := newFleet(t)
	p := f.started()
	f.publish(p, plan.Runtime{ID: "berlin"}, "regular")
	stranger := trusttest.NewSigner(t)
	public, err := stranger.PublicKey()
	must(t, err)
	draft := trust.DraftRoot("", 1, noon.AddDate(1, 0, 0))
	must(t, draft.Add(trust.RoleRoot, public))
	must(t, draft.Add(trust.RolePublisher, public))
	must(t, draft.Sign(stranger))
	data, err := draft.Bytes()
	must(t, err)
	first, err := trust.ParseRoot(data)
	must(t, err)
	must(t, store.PushRoot(t.Context(), f.place(), successor(t, stranger, first, stranger)))
	if _, err := p.CheckKeys(t.Context()); err != nil {
		t.Error(err)
	}
	f.publish(p, plan.Runtime{ID: "berlin"}, "fast")
	f.publish(f.started(), plan.Runtime{ID: "munich"}, "fast")
}
