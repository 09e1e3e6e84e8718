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
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// endless writes until the reader closes the connection, and returns the number of written bytes.
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

// signal reports on the channel that the registry has received a request. It never blocks.
func signal(asked chan struct{}) {
	select {
	case asked <- struct{}{}:
	default:
	}
}

func TestMaliciousRegistryCannotChangeRuntime(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{})
	r := runtimeWith(t, f, "victim", map[string]string{"scaler": "1.7.0"})
	untilQuiet(t, f)
	f.Publisher().Stop()
	honest, err := r.Desired(ctx)
	must(t, err)
	repository, err := f.Place.Repository(ctx, bundle.DesiredRepository("victim"))
	must(t, err)
	newer := forged(t, f, r, publisherKey(t, f), func(*bundle.Predicate) {})
	other := forged(t, f, r, publisherKey(t, f), func(p *bundle.Predicate) { p.KymaGeneration += 100 })
	back := func(t *testing.T) {
		t.Helper()
		// Restore the valid bundle before the registry works again. Otherwise, the agent could accept the forged
		// bundle, which is newer, and then refuse the valid bundle as older.
		must(t, r.Put(ctx, bundle.NewBlob(ocispec.MediaTypeImageManifest, honest.Bytes)))
		f.Registry.Intercept(nil)
		must(t, r.UntilAccepted(ctx, metav1.ConditionTrue, "Accepted"))
	}
	ofVictim := func(request *http.Request, method string) bool {
		return request.Method == method && strings.Contains(request.URL.Path, "/runtimes/victim/")
	}
	// untouched waits for a few more polls and checks that the agent did not change any object.
	untouched := func(t *testing.T, asked chan struct{}) {
		t.Helper()
		before := objectVersions(t, r)
		for range 3 {
			select {
			case <-asked:
			case <-time.After(fleet.LongTimeout):
				t.Fatal("the agent stopped polling")
			}
		}
		if after := objectVersions(t, r); after != before {
			t.Errorf("objects of the runtime changed: %s to %s", before, after)
		}
	}

	t.Run("tag that resolves to another bundle on each read is refused", func(t *testing.T) {
		asked := make(chan struct{}, 100)
		f.Registry.Intercept(func(w http.ResponseWriter, request *http.Request) bool {
			if !strings.Contains(request.URL.Path, "/runtimes/victim/manifests/") || request.Method == http.MethodPut {
				return false
			}
			blob := newer
			if request.Method == http.MethodGet { // the content does not match the resolved digest
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
			t.Errorf("the agent applied sequence %d: %v", statement.Predicate.Sequence, err)
		}
		back(t)
	})
	t.Run("endless manifest is refused", func(t *testing.T) {
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
		// The count includes bytes in socket buffers that the agent has not read.
		if read := most.Load(); read > 16*bundle.MaxManifestBytes {
			t.Errorf("the registry wrote %d bytes to the agent, want a limited number", read)
		}
	})
	t.Run("bundle with a missing blob is refused", func(t *testing.T) {
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
			t.Errorf("the agent applied sequence %d: %v", statement.Predicate.Sequence, err)
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

// An attacker with the publisher's key publishes a bundle with a very high sequence number. The publisher's own bundles
// are then always older.
func TestNewEpochSupersedesForgedSequences(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{PublisherFlags: []string{"--set", "keys-poll-interval=1s"}})
	r := runtimeWith(t, f, "berlin", map[string]string{"scaler": "1.7.0"})
	untilQuiet(t, f)
	f.Publisher().Stop()
	stolen := publisherKey(t, f)
	must(t, r.Put(ctx, forged(t, f, r, stolen, func(p *bundle.Predicate) { p.Sequence = math.MaxInt64 - 3 })))
	until(t, 30*time.Second, "the agent applies the attacker's bundle", func() (bool, string) {
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
		t.Errorf("the agent applied sequence %d of epoch %d", p.Sequence, p.Epoch)
	}
}

// While the agent is stopped, the current bundle expires and operators rotate the keys several times.
func TestLongOfflineRuntimeCatchesUp(t *testing.T) {
	suite.Long(t) // the short suite runs TestBundleIsFrozenWhenExpiredOrNoLongerTrusted
	ctx := t.Context()
	f := newFleet(t, fleet.Options{
		PublisherFlags: []string{"--set", "keys-poll-interval=1s", "--validity", "30s", "--set", "certificate-validity=1m"},
	})
	r := runtimeWith(t, f, "berlin", map[string]string{"scaler": "1.7.0"})
	f.Publisher().Stop()
	r.Agent().Kill()
	statement, err := inForce(t, r)
	must(t, err)
	for range 3 {
		changeKeys(t, f, "rotate", "publisher")
	}
	until(t, time.Minute, "the applied bundle expires", func() (bool, string) {
		return time.Now().After(statement.Predicate.ExpiresAt), statement.Predicate.ExpiresAt.String()
	})
	config, err := settings(ctx, r)
	must(t, err)
	must(t, r.API.Delete(ctx, config))
	must(t, r.StartAgent())
	until(t, 60*time.Second, "the agent recreates the deleted object", func() (bool, string) {
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

// An operator rotates the publisher's key after the agent has read the root of trust and before it reads the bundle.
func TestKeyRotationBetweenReadsIsNotAnAttack(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{PublisherFlags: []string{"--set", "keys-poll-interval=1s"}})
	r := runtimeWith(t, f, "berlin", map[string]string{"scaler": "1.7.0"})
	untilQuiet(t, f)
	r.Agent().Stop()
	changeKeys(t, f, "rotate", "publisher")
	untilQuiet(t, f)
	until(t, 60*time.Second, "the registry has a bundle of the new key", func() (bool, string) {
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
		t.Error("the agent did not request the root again")
	}
	if log := r.Agent().Log(); strings.Contains(log, string(refusal.UnknownKey)) {
		t.Errorf("the agent reported the rotation as an attack:\n%s", log)
	}
}
