package scenario

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// endless writes until the reader has closed the connection, and reports the number of bytes.
func endless(w io.Writer) int {
	written, chunk := 0, []byte(strings.Repeat(" ", 1<<16))
	for {
		n, err := w.Write(chunk)
		written += n
		if err != nil {
			return written
		}
	}
}

// signal reports a request to the waiting test.
func signal(asked chan struct{}) {
	select {
	case asked <- struct{}{}:
	default:
	}
}

func TestLyingRegistryChangesNothing(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{})
	r := runtimeWith(t, f, "victim", map[string]string{"scaler": "1.7.0"})
	settle(t, f)
	f.Publisher().Stop()
	honest, err := r.Desired(ctx)
	must(t, err)
	repository, err := f.Place.Repository(ctx, bundle.DesiredRepository("victim"))
	must(t, err)
	newer := forged(t, f, r, publisherKey(t, f), func(*bundle.Predicate) {})
	other := forged(t, f, r, publisherKey(t, f), func(p *bundle.Predicate) { p.KymaGeneration += 100 })
	back := func(t *testing.T) {
		t.Helper()
		// In this order: between them the agent would accept the registry's bundle, and then no older one.
		must(t, r.Put(ctx, bundle.NewBlob(ocispec.MediaTypeImageManifest, honest.Bytes)))
		f.Registry.Intercept(nil)
		must(t, r.UntilAccepted(ctx, metav1.ConditionTrue, "Accepted"))
	}
	ofVictim := func(request *http.Request, method string) bool {
		return request.Method == method && strings.Contains(request.URL.Path, "/runtimes/victim/")
	}
	// untouched waits until the agent has polled a few times, as counted by asked, and compares.
	untouched := func(t *testing.T, asked chan struct{}) {
		t.Helper()
		before := witness(t, r)
		for range 3 {
			select {
			case <-asked:
			case <-time.After(fleet.Generous):
				t.Fatal("the agent does not look any more")
			}
		}
		if after := witness(t, r); after != before {
			t.Errorf("objects of the runtime changed: %s to %s", before, after)
		}
	}

	t.Run("a tag that names another bundle with each read", func(t *testing.T) {
		asked := make(chan struct{}, 100)
		f.Registry.Intercept(func(w http.ResponseWriter, request *http.Request) bool {
			if !strings.Contains(request.URL.Path, "/runtimes/victim/manifests/") || request.Method == http.MethodPut {
				return false
			}
			blob := newer
			if request.Method == http.MethodGet { // the resolved digest is requested, and other content is returned
				blob = other
				signal(asked)
			}
			w.Header().Set("Content-Type", blob.Descriptor.MediaType)
			w.Header().Set("Docker-Content-Digest", newer.Descriptor.Digest.String())
			w.Header().Set("Content-Length", fmt.Sprint(len(blob.Bytes)))
			if request.Method == http.MethodGet {
				_, _ = w.Write(blob.Bytes)
			}
			return true
		})
		untouched(t, asked)
		if statement, err := inForce(t, r); err != nil || statement.Predicate.Sequence != sequenceOf(t, f, r, honest) {
			t.Errorf("sequence %d is in force: %v", statement.Predicate.Sequence, err)
		}
		back(t)
	})
	t.Run("a manifest without end", func(t *testing.T) {
		asked := make(chan struct{}, 100)
		var most atomic.Int64
		f.Registry.Intercept(func(w http.ResponseWriter, request *http.Request) bool {
			if !ofVictim(request, http.MethodGet) || !strings.Contains(request.URL.Path, "/manifests/") {
				return false
			}
			signal(asked)
			w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
			w.Header().Set("Docker-Content-Digest", newer.Descriptor.Digest.String())
			most.Store(max(most.Load(), int64(endless(w))))
			return true
		})
		must(t, r.Put(ctx, newer))
		untouched(t, asked)
		back(t)
		// The rest is in the buffers of two sockets.
		if read := most.Load(); read > 16*bundle.MaxManifestBytes {
			t.Errorf("the agent read %d bytes", read)
		}
	})
	t.Run("a bundle of which a part is missing", func(t *testing.T) {
		state, err := bundle.NewDocuments(bundle.DesiredState{}, bundle.Catalog{})
		must(t, err)
		predicate := predicateOf(t, f, r, newer)
		partial, err := bundle.Compose(state, predicate, publisherKey(t, f))
		must(t, err)
		for _, blob := range []bundle.Blob{state.State, state.Catalog} {
			must(t, store.PushBlob(ctx, repository, blob))
		}
		asked := make(chan struct{}, 100)
		f.Registry.Intercept(func(w http.ResponseWriter, request *http.Request) bool {
			if !ofVictim(request, http.MethodGet) ||
				!strings.HasSuffix(request.URL.Path, "/blobs/"+state.Catalog.Descriptor.Digest.String()) {
				return false
			}
			signal(asked)
			http.Error(w, `{"errors":[{"code":"BLOB_UNKNOWN"}]}`, http.StatusNotFound)
			return true
		})
		must(t, r.Put(ctx, partial))
		untouched(t, asked)
		if statement, err := inForce(t, r); err != nil || statement.Predicate.Sequence != sequenceOf(t, f, r, honest) {
			t.Errorf("sequence %d is in force: %v", statement.Predicate.Sequence, err)
		}
		back(t)
	})
}

func predicateOf(t *testing.T, f *fleet.Fleet, r *fleet.Runtime, manifest bundle.Blob) bundle.Predicate {
	t.Helper()
	verified, err := bundle.Adopt(bundle.Fetched(manifest), r.ID, rootOf(t, f))
	must(t, err)
	return verified.Statement.Predicate
}

// TestNewEpochEndsAnAttackersFutureSequences has an attacker with the publisher's key who publishes with sequences so
// far ahead that no honest bundle is newer.
func TestNewEpochEndsAnAttackersFutureSequences(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{PublisherFlags: []string{"--keys-poll-interval", "1s"}})
	r := runtimeWith(t, f, "berlin", map[string]string{"scaler": "1.7.0"})
	settle(t, f)
	f.Publisher().Stop()
	stolen := publisherKey(t, f)
	must(t, r.Put(ctx, forged(t, f, r, stolen, func(p *bundle.Predicate) { p.Sequence = math.MaxInt64 - 3 })))
	until(t, 30*time.Second, "the attacker's bundle is in force", func() (bool, string) {
		statement, err := inForce(t, r)
		return err == nil && statement.Predicate.Sequence == math.MaxInt64-3, fmt.Sprint(err)
	})
	must(t, f.StartPublisher())
	changeKeys(t, f, "rotate", "publisher", "--new-epoch")
	changeKeys(t, f, "revoke", thumbprintOf(t, stolen))
	untilRoot(t, r, 3)
	promote(t, f, "1.8.0")
	must(t, r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
		spec.Modules = append(spec.Modules, managed("mailer"))
	}))
	must(t, r.UntilState(ctx, "mailer", "1.0.0", v1beta2.StateReady))
	statement, err := inForce(t, r)
	must(t, err)
	if p := statement.Predicate; p.Epoch != 2 || p.Sequence > time.Now().Add(time.Hour).UnixMilli() {
		t.Errorf("sequence %d of epoch %d is in force", p.Sequence, p.Epoch)
	}
}

// TestLongOfflineRuntimeCatchesUp stops the agent while the current bundle expires and the keys are replaced several
// times.
func TestLongOfflineRuntimeCatchesUp(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{
		PublisherFlags: []string{"--keys-poll-interval", "1s", "--validity", "30s", "--certificate-validity", "1m"},
	})
	r := runtimeWith(t, f, "berlin", map[string]string{"scaler": "1.7.0"})
	f.Publisher().Stop()
	r.Agent().Kill()
	statement, err := inForce(t, r)
	must(t, err)
	for range 3 {
		changeKeys(t, f, "rotate", "publisher")
	}
	until(t, time.Minute, "what is in force is over", func() (bool, string) {
		return time.Now().After(statement.Predicate.ExpiresAt), statement.Predicate.ExpiresAt.String()
	})
	config, err := settings(ctx, r)
	must(t, err)
	must(t, r.API.Delete(ctx, config))
	must(t, r.StartAgent())
	until(t, 60*time.Second, "the deleted object is back", func() (bool, string) {
		_, err := settings(ctx, r)
		return err == nil, fmt.Sprint(err)
	})
	must(t, r.UntilAccepted(ctx, metav1.ConditionFalse, string(refusal.Expired)))
	must(t, f.StartPublisher())
	promote(t, f, "1.8.0")
	must(t, r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
	untilRoot(t, r, 4)
	must(t, r.UntilAccepted(ctx, metav1.ConditionTrue, "Accepted"))
}

// TestKeyRotationBetweenReadsIsNotAnAttack uses this order: the agent reads the root, the keys change, and the agent
// reads a bundle of the new key.
func TestKeyRotationBetweenReadsIsNotAnAttack(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{PublisherFlags: []string{"--keys-poll-interval", "1s"}})
	r := runtimeWith(t, f, "berlin", map[string]string{"scaler": "1.7.0"})
	settle(t, f)
	r.Agent().Stop()
	changeKeys(t, f, "rotate", "publisher")
	settle(t, f)
	until(t, 60*time.Second, "a bundle of the new key lies there", func() (bool, string) {
		fetched, err := r.Desired(ctx)
		if err != nil {
			return false, err.Error()
		}
		verified, err := bundle.Adopt(fetched, r.ID, rootOf(t, f))
		return err == nil && verified.Statement.Predicate.RootVersion == 2,
			fmt.Sprint(err, verified.Statement.Predicate.RootVersion)
	})
	f.Publisher().Stop()
	var late atomic.Bool
	f.Registry.Intercept(func(w http.ResponseWriter, request *http.Request) bool {
		if !strings.HasSuffix(request.URL.Path, "/trust/manifests/"+bundle.TagRoot+"2") || late.Swap(true) {
			return false
		}
		http.Error(w, `{"errors":[{"code":"MANIFEST_UNKNOWN"}]}`, http.StatusNotFound)
		return true
	})
	must(t, r.StartAgent())
	untilRoot(t, r, 2)
	if !late.Load() {
		t.Error("the agent did not ask for the root")
	}
	if log := r.Agent().Log(); strings.Contains(log, string(refusal.UnknownKey)) {
		t.Errorf("the agent took it for an attack:\n%s", log)
	}
}
