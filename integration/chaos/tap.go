package chaos

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// registryFaults contains the registry's current faults.
type registryFaults struct {
	mu      sync.Mutex // guards the fields below
	slow    bool
	failing bool
	silent  bool // the registry drops some responses
	// refused is a part of the path of the repository that refuses writes. It is empty if no repository refuses writes.
	refused string
}

func (t *registryFaults) set(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
}

func (t *registryFaults) now() (slow, failing, silent bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.slow, t.failing, t.silent
}

// refuses reports whether the registry refuses a request because of RefuseWrites.
func (t *registryFaults) refuses(request *http.Request) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.refused != "" && request.Method != http.MethodGet && request.Method != http.MethodHead &&
		strings.Contains(request.URL.Path, t.refused)
}

// beforeRequest is called for each request before the registry handles it. It records pushed data and injects the
// current faults of the registry.
func (s *stage) beforeRequest(w http.ResponseWriter, request *http.Request) bool {
	s.tap.copyBody(request)
	if s.troubles.refuses(request) {
		w.WriteHeader(http.StatusForbidden)
		return true
	}
	slow, failing, _ := s.troubles.now()
	if slow {
		select {
		case <-time.After(time.Duration(rand.Int64N(int64(time.Second)))):
		case <-request.Context().Done():
		}
	}
	if failing && rand.IntN(2) == 0 {
		w.WriteHeader([]int{http.StatusInternalServerError, http.StatusBadGateway,
			http.StatusServiceUnavailable}[rand.IntN(3)])
		return true
	}
	return false
}

// afterRequest is called after the registry has handled a request. It passes pushed data to the checker. During the
// fault LoseAnswers, it drops some responses.
func (s *stage) afterRequest(request *http.Request, status int) {
	s.tap.observe(request, status)
	if _, _, silent := s.troubles.now(); silent && rand.IntN(3) == 0 {
		panic(http.ErrAbortHandler) // closes the connection without a response
	}
}

// tap passes each bundle and report to the checker after the registry has accepted it. It copies the bodies of
// requests, so it also observes a push whose response is dropped.
type tap struct {
	checker *Checker
	since   func() time.Duration
	keys    string // path of the folder with the root of trust

	mu     sync.Mutex // guards the fields below, and keeps the checks in the order of the responses
	bodies map[*http.Request][]byte
	blobs  map[digest.Digest][]byte
	roots  []trust.Root // all known roots of trust, oldest first
	// signers maps the digest of each bundle to the thumbprint of the key that signed the bundle.
	signers map[string]string
	// contents maps the digest of each bundle to a digest of the content that the bundle gives to its runtime. A
	// renewed bundle has the same content.
	contents map[string]string
	// acceptedAt is the time when the registry accepted each version of the root of trust.
	acceptedAt map[int64]time.Duration
}

// rootSpreadTime is how long publishers can still sign with a key in the previous root of trust after the registry has
// accepted a new one.
const rootSpreadTime = 5 * time.Second

// mostBytes is the maximum size of the copied part of a request body. All documents are smaller.
const mostBytes = 4 << 20

// copyBody copies a request's body before the registry reads it.
func (t *tap) copyBody(request *http.Request) {
	manifest := strings.Contains(request.URL.Path, "/manifests/")
	if request.Method != http.MethodPut || !manifest && !strings.Contains(request.URL.Path, "/blobs/uploads/") {
		return
	}
	body, err := io.ReadAll(io.LimitReader(request.Body, mostBytes))
	request.Body = readCloser{io.MultiReader(bytes.NewReader(body), errorReader{err}, request.Body), request.Body}
	if err != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if manifest {
		t.bodies[request] = body
	} else {
		t.blobs[digest.FromBytes(body)] = body
	}
}

type readCloser struct {
	io.Reader
	io.Closer
}

// errorReader returns the error that occurred while copyBody read the request's body, or io.EOF.
type errorReader struct{ err error }

func (f errorReader) Read([]byte) (int, error) {
	if f.err == nil {
		return 0, io.EOF
	}
	return 0, f.err
}

// observe passes an accepted bundle or report to the checker, and records accepted roots of trust.
func (t *tap) observe(request *http.Request, status int) {
	if request.Method != http.MethodPut {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	body, noted := t.bodies[request]
	delete(t.bodies, request)
	if !noted || status >= http.StatusBadRequest {
		return
	}
	parts := strings.Split(request.URL.Path, "/")
	for i, part := range parts[:len(parts)-1] {
		switch {
		case part == "runtimes" && parts[len(parts)-1] == bundle.TagDesired:
			t.checker.Pushed(t.since(), t.read(parts[i+1], body))
		case part == "reports":
			t.report(parts[i+1], body)
		case part == bundle.TrustRepository:
			t.recordAcceptance(parts[len(parts)-1])
		}
	}
}

// recordAcceptance records the time when the registry accepted a root of trust.
func (t *tap) recordAcceptance(tag string) {
	// A new root of trust is in the key folder before publishers push it. After an error, continue with the known
	// roots.
	_ = t.learnLocked()
	for _, root := range t.roots {
		if _, known := t.acceptedAt[root.Version]; !known && bundle.RootTag(root.Version) == tag {
			t.acceptedAt[root.Version] = t.since()
		}
	}
}

func fetched(body []byte) bundle.Fetched {
	return bundle.Fetched{
		Descriptor: ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromBytes(body),
			Size: int64(len(body))}, Bytes: body,
	}
}

// read verifies a pushed bundle with the known roots of trust and returns its content for the checker.
func (t *tap) read(runtime string, body []byte) Push {
	p := Push{
		Runtime: runtime, Digest: digest.FromBytes(body).String(), Versions: map[string]string{},
		Downtime: map[string]bool{}, Mandatory: map[string]bool{},
	}
	verified, err := t.verify(runtime, body)
	if p.Refused = err; err != nil {
		return p
	}
	predicate := verified.Statement.Predicate
	p.Ahead = isTooFarAhead(predicate.Sequence)
	p.Issued = t.since() - max(0, time.Since(time.UnixMilli(predicate.Sequence)))
	p.Epoch, p.Sequence, p.Removals, p.Deleting = predicate.Epoch, predicate.Sequence, predicate.Removals,
		predicate.Deleting
	p.Rollback = predicate.Rollback
	document, known := t.blobs[verified.Config.Digest]
	if !known {
		p.Refused = fmt.Errorf("the bundle's desired state %s was never pushed", verified.Config.Digest)
		return p
	}
	state, err := bundle.DecodeDesiredState(document)
	p.Refused = err
	for _, m := range state.Manifests {
		p.Versions[m.Module] = m.Version
		if m.IsMandatory() {
			p.Mandatory[m.Module] = true
		}
		if m.RequiresDowntime {
			p.Downtime[m.Module] = true
		}
	}
	p.Generation, p.Key = predicate.KymaGeneration, predicate.Audience.KeyThumbprint
	if next := state.Settings.NextRegistry; next != nil {
		p.NextCA = next.CA
	}
	p.Closed = state.Maintenance != nil && len(state.Maintenance.Windows) == 0 &&
		state.Maintenance.Default == nil
	if t.signers == nil {
		t.signers, t.contents = map[string]string{}, map[string]string{}
	}
	t.signers[p.Digest] = verified.KeyThumbprint
	t.contents[p.Digest] = digest.FromString(fmt.Sprint(verified.Config.Digest, p.Removals, p.Deleting, p.Rollback,
		p.Key)).String()
	return p
}

// contentOf returns a digest of the content that a bundle gives to its runtime. Two bundles with the same content have
// the same digest. For an unknown bundle, it returns the digest of the bundle.
func (t *tap) contentOf(bundle string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return cmp.Or(t.contents[bundle], bundle)
}

func (t *tap) verify(runtime string, body []byte) (bundle.Verified, error) {
	judge := func() (bundle.Verified, error) {
		if len(t.roots) == 0 {
			return bundle.Verified{}, fmt.Errorf("no root of trust in %s yet", t.keys)
		}
		newest := len(t.roots) - 1
		verified, err := bundle.Adopt(fetched(body), runtime, t.roots[newest], t.roots[:newest]...)
		for older := newest - 1; err != nil && older >= t.settledRoot(); older-- {
			if verified, otherwise := bundle.Adopt(fetched(body), runtime, t.roots[older],
				t.roots[:older]...); otherwise == nil {
				return verified, nil
			}
		}
		return verified, err
	}
	verified, err := judge()
	if err == nil {
		return verified, nil
	}
	if err := t.learnLocked(); err != nil {
		return verified, err
	}
	return judge()
}

// settledRoot returns the index of the newest root of trust that has been in the registry for at least rootSpreadTime,
// so every agent must have read it.
func (t *tap) settledRoot() int {
	for i := len(t.roots) - 1; i > 0; i-- {
		if at, there := t.acceptedAt[t.roots[i].Version]; there && t.since()-at >= rootSpreadTime {
			return i
		}
	}
	return 0
}

// recordRoot records the root of trust that is currently in the key folder. Callers must call it between two changes to
// the root.
func (t *tap) recordRoot() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.learnLocked()
}

// revokedSigner returns the key that signed a bundle if the newest root of trust revokes this key. Otherwise, it
// returns an empty string.
func (t *tap) revokedSigner(digest string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.learnLocked(); err != nil || len(t.roots) == 0 {
		return ""
	}
	if key := t.signers[digest]; key != "" && t.roots[len(t.roots)-1].IsRevoked(key) {
		return key
	}
	return ""
}

func (t *tap) learnLocked() error {
	data, err := os.ReadFile(filepath.Join(t.keys, "root.json"))
	if err != nil {
		return err
	}
	root, err := trust.ParseRoot(data)
	if err != nil {
		return err
	}
	if n := len(t.roots); n == 0 || t.roots[n-1].Version < root.Version {
		t.roots = append(t.roots, root)
	}
	return nil
}

// isTooFarAhead reports whether a bundle's sequence is further in the future than trust.MaxClockSkew.
func isTooFarAhead(sequence int64) bool {
	return sequence > time.Now().Add(trust.MaxClockSkew).UnixMilli()
}

func (t *tap) report(runtime string, body []byte) {
	report, err := bundle.ClaimedReport(fetched(body))
	if err != nil {
		t.checker.Break(t.since(), Signed, "%s pushed a report that cannot be read: %v", runtime, err)
		return
	}
	t.checker.Reported(t.since(), newReported(runtime, report))
}

// newReported returns the parts of a report that the checker compares.
func newReported(runtime string, report bundle.Report) Reported {
	reported := Reported{
		Runtime: runtime, Sequence: report.Sequence, Instance: report.Instance, Confirmed: report.Confirmed,
		Answered: map[string]string{}, Waiting: map[string]bool{},
		Ahead: isTooFarAhead(report.Sequence), States: map[string]string{}, Ready: map[string]string{},
	}
	if k := report.Kyma; k != nil && !report.OmitsRequest() {
		reported.Generation, reported.Requests = k.Generation, []string{}
		for _, m := range k.Spec.Modules {
			reported.Requests = append(reported.Requests, m.Name)
		}
	}
	if o := report.Observed; o != nil {
		reported.Epoch, reported.Observed, reported.Digest = o.Epoch, o.Sequence, o.Digest.String()
	}
	for _, m := range report.Modules {
		reported.States[m.Name] = string(m.State)
		if m.State == v1beta2.StateReady {
			reported.Ready[m.Name] = m.Version
		}
		switch {
		case m.Maintenance:
			reported.Waiting[m.Name] = true
		case m.State == v1beta2.StateError: // possibly nothing of the wanted version was applied
			reported.Answered[m.Name] = cmp.Or(m.Wanted, m.Version)
		case m.State == v1beta2.StateReady || m.State == v1beta2.StateWarning:
			reported.Answered[m.Name] = m.Version
		}
	}
	return reported
}
