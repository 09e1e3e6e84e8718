package chaos

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

type pushes struct {
	*testing.T
	tap       *tap
	documents bundle.Documents
}

func newPushes(t *testing.T, publisher trust.Signer) *pushes {
	documents, err := bundle.NewDocuments(
		bundle.DesiredState{Kyma: bundle.KymaSeed{Spec: v1beta2.KymaSpec{Channel: channel}}}, bundle.Catalog{})
	if err != nil {
		t.Fatal(err)
	}
	checker := NewChecker(scaler, concurrentOthers)
	return &pushes{T: t, documents: documents, tap: &tap{
		checker: checker, since: func() time.Duration { return 0 }, keys: t.TempDir(),
		roots:  []trust.Root{trusttest.RootFor(t, publisher)},
		bodies: map[*http.Request][]byte{}, blobs: map[digest.Digest][]byte{}, acceptedAt: map[int64]time.Duration{},
	}}
}

// push pushes a bundle for trusttest.Runtime. The registry responds with the given status.
func (p *pushes) push(repository string, signer trust.Signer, status int) {
	p.Helper()
	p.pushWith(repository, signer, status, func(*bundle.Predicate) {})
}

// pushWith is like push, with changes to the statement. It returns the digest of the bundle.
func (p *pushes) pushWith(
	repository string, signer trust.Signer, status int, change func(*bundle.Predicate),
) (pushed string) {
	p.Helper()
	predicate := bundle.Predicate{
		Audience: bundle.Audience{Runtime: trusttest.Runtime}, Epoch: 1, Sequence: 10, IssuedAt: trusttest.Now,
		ExpiresAt: trusttest.Now.AddDate(0, 0, 7), RootVersion: 1,
	}
	change(&predicate)
	manifest, err := bundle.Compose(p.documents, predicate, signer)
	if err != nil {
		p.Fatal(err)
	}
	p.put("/v2/fleet/runtimes/"+repository+"/blobs/uploads/1", p.documents.State.Bytes, http.StatusCreated)
	p.put("/v2/fleet/runtimes/"+repository+"/manifests/"+bundle.TagDesired, manifest.Bytes, status)
	return digest.FromBytes(manifest.Bytes).String()
}

func (p *pushes) put(path string, body []byte, status int) {
	request := httptest.NewRequest(http.MethodPut, path, strings.NewReader(string(body)))
	p.tap.copyBody(request)
	p.tap.observe(request, status)
}

func (p *pushes) wantBroken(message string) {
	p.Helper()
	v := p.tap.checker.Violations()
	if !slices.ContainsFunc(v,
		func(v Violation) bool { return v.Invariant == Signed && strings.Contains(v.What, message) }) {
		p.Errorf("want a violation of %q that contains %q, got %v", Signed, message, v)
	}
}

func TestObserverAcceptsBundleSignedByPublisher(t *testing.T) {
	publisher := trusttest.NewSigner(t)
	p := newPushes(t, publisher)
	p.push(trusttest.Runtime, publisher, http.StatusCreated)
	if v := p.tap.checker.Violations(); len(v) > 0 {
		t.Errorf("got violations %v, want none", v)
	}
	if p.tap.checker.Checks()[Signed] == 0 {
		t.Error("the tap did not check the bundle")
	}
}

func TestObserverReportsBundleSignedByUnknownKey(t *testing.T) {
	p := newPushes(t, trusttest.NewSigner(t))
	p.push(trusttest.Runtime, trusttest.NewSigner(t), http.StatusCreated)
	p.wantBroken("runtimes must refuse it")
}

// rotate applies roots of trust that list one key each. If revoke is true, each root revokes the previous root's key.
func (p *pushes) rotate(revoke bool, keys ...trust.Signer) {
	p.Helper()
	maker := trusttest.NewRootFixture(p)
	maker.Publisher, p.tap.roots = keys[0], nil
	data := maker.First().Raw
	for i := range keys {
		if i > 0 {
			newest := p.tap.roots[i-1]
			data = maker.After(newest, func(d *trust.RootDraft) {
				maker.Must(d.Remove(trust.RolePublisher, newest.Publishers()...))
				maker.Must(d.Add(trust.RolePublisher, trusttest.PublicKey(p, keys[i])))
				if revoke {
					maker.Must(d.Revoke(trusttest.Thumbprint(p, keys[i-1])))
				}
			}, maker.Keys[:2]...)
		}
		maker.Must(errors.Join(os.WriteFile(filepath.Join(p.tap.keys, "root.json"), data, 0o600), p.tap.recordRoot()))
	}
}

// A publisher signs with the key in the previous root until the registry accepts the newest root.
func TestObserverAcceptsBundleBetweenTwoRotations(t *testing.T) {
	keys := []trust.Signer{trusttest.NewSigner(t), trusttest.NewSigner(t), trusttest.NewSigner(t)}
	p := newPushes(t, keys[0])
	p.rotate(false, keys...)
	p.push(trusttest.Runtime, keys[1], http.StatusCreated)
	if v := p.tap.checker.Violations(); len(v) > 0 {
		t.Errorf("got violations %v, want none", v)
	}
}

// Agents use the previous root until the registry accepts a new one.
func TestObserverAcceptsBundleIfItsKeyWasJustRevoked(t *testing.T) {
	keys := []trust.Signer{trusttest.NewSigner(t), trusttest.NewSigner(t)}
	for name, c := range map[string]struct {
		after  time.Duration // time from the acceptance of the revoking root to the push
		status int           // the registry's response status for the root
		broken bool
	}{
		"registry rejected the root":                       {rootSpreadTime, http.StatusBadGateway, false},
		"push began before the registry accepted the root": {rootSpreadTime - 1, http.StatusCreated, false},
		"registry accepted the root":                       {rootSpreadTime, http.StatusCreated, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPushes(t, keys[0])
			p.rotate(true, keys...)
			p.put("/v2/fleet/trust/manifests/"+bundle.RootTag(1), []byte("{}"), http.StatusCreated)
			p.tap.since = func() time.Duration { return rootSpreadTime }
			p.put("/v2/fleet/trust/manifests/"+bundle.RootTag(2), []byte("{}"), c.status)
			p.tap.since = func() time.Duration { return rootSpreadTime + c.after }
			p.push(trusttest.Runtime, keys[0], http.StatusCreated)
			if v := p.tap.checker.Violations(); (len(v) > 0) != c.broken {
				t.Errorf("got violations %v, want violations: %t", v, c.broken)
			}
		})
	}
}

func TestObserverReportsBundleForAnotherRuntime(t *testing.T) {
	publisher := trusttest.NewSigner(t)
	p := newPushes(t, publisher)
	p.push("another", publisher, http.StatusCreated)
	p.wantBroken("pushed for another")
}

func TestObserverIgnoresRefusedWrites(t *testing.T) {
	p := newPushes(t, trusttest.NewSigner(t))
	p.push(trusttest.Runtime, trusttest.NewSigner(t), http.StatusServiceUnavailable)
	if v := p.tap.checker.Violations(); len(v) > 0 {
		t.Errorf("got violations %v, want none", v)
	}
}

func TestObserverReportsUnreadableReport(t *testing.T) {
	p := newPushes(t, trusttest.NewSigner(t))
	p.put("/v2/fleet/reports/one/manifests/newest", []byte("{}"), http.StatusCreated)
	p.wantBroken("one pushed a report that cannot be read")
}

func TestPanicInALogIsReported(t *testing.T) {
	for want, log := range map[string]string{
		"":                 "all is well\n",
		"panic: no":        "all is well\npanic: no\n\ngoroutine 1 [running]:\n",
		"Observed a panic": `{"level":"error","msg":"Observed a panic"}`,
		"DATA RACE":        "WARNING: DATA RACE\n",
	} {
		s := &stage{dir: t.TempDir(), checker: NewChecker(scaler, concurrentOthers), began: time.Now()}
		if err := os.WriteFile(filepath.Join(s.dir, "skr-agent.log"), []byte(log), 0o600); err != nil {
			t.Fatal(err)
		}
		s.readLogs()
		v := s.checker.Violations()
		if want == "" && len(v) > 0 || want != "" &&
			(len(v) != 1 || v[0].Invariant != Alive || !strings.Contains(v[0].What, want)) {
			t.Errorf("log with %q: got violations %v", log, v)
		}
		if s.checker.Checks()[Alive] != 1 {
			t.Errorf("got %d checks of logs, want 1", s.checker.Checks()[Alive])
		}
	}
}

// Publishers renew short-lived bundles every few seconds, so the published, the reported and the stored bundle can
// differ in a converged fleet.
func TestRenewedBundleHasTheSameContent(t *testing.T) {
	publisher := trusttest.NewSigner(t)
	p := newPushes(t, publisher)
	first := p.pushWith(trusttest.Runtime, publisher, http.StatusCreated, func(*bundle.Predicate) {})
	renewed := p.pushWith(trusttest.Runtime, publisher, http.StatusCreated, func(p *bundle.Predicate) {
		p.Sequence, p.ExpiresAt = 11, p.ExpiresAt.Add(time.Hour)
	})
	changed := p.pushWith(trusttest.Runtime, publisher, http.StatusCreated, func(p *bundle.Predicate) {
		p.Sequence, p.Removals = 12, []string{mailer}
	})
	end := func(observed string) End {
		modules := map[string]string{scaler: FirstVersion}
		return End{
			Runtime: trusttest.Runtime, Wanted: modules, Has: modules, State: "Ready",
			Published: p.tap.contentOf(renewed), InRegistry: p.tap.contentOf(renewed), Observed: p.tap.contentOf(observed),
		}
	}
	if problems := Judge([]End{end(first)}); len(problems) > 0 || first == renewed {
		t.Errorf("got problems %q with bundle %s and its renewal %s, want none", problems, first, renewed)
	}
	for _, other := range []string{changed, "sha256:unknown"} {
		if problems := Judge([]End{end(other)}); len(problems) != 1 {
			t.Errorf("got problems %q with reported bundle %s, want one", problems, other)
		}
	}
}

func TestFailedUpgradeCountsAsResultForRequestedVersion(t *testing.T) {
	module := bundle.ReportedModule{Name: scaler, Version: "1.4.0", Wanted: "1.7.0", State: v1beta2.StateError}
	report := bundle.Report{Modules: []bundle.ReportedModule{module}}
	if version := newReported("real-1", report).Answered[scaler]; version != "1.7.0" {
		t.Errorf("the report is a result for version %q, want 1.7.0", version)
	}
	report.Modules[0].State = v1beta2.StateReady
	if version := newReported("real-1", report).Answered[scaler]; version != "1.4.0" {
		t.Errorf("the report about the earlier version is a result for version %q, want 1.4.0", version)
	}
}
