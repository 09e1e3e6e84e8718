package controller

import (
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

// settlesFor is for how many poll intervals a look that found nothing to do stands for those that follow. Time alone may change what is due:
// bundles and certificates are renewed, and the registry and the components are looked at again.
//
// Polls may be minutes apart where notifications arrive; then it stands for settlesAtMost, or until the next poll.
const (
	settlesFor    = 10
	settlesAtMost = 5 * time.Minute
)

// look is all that a look at a Kyma depends on besides time.
type look struct {
	uid     types.UID
	version string // the Kyma's resource version
	view    *plan.View
	source  *bundle.Source
	// marked counts the changes that made all Kymas be looked at: of the catalog, the keys, the signature policy, Watchers and the image pull
	// Secret; own counts those that made this one be.
	marked, own int64
	// report is what the newest report says, apart from its time.
	report digest.Digest
}

// settled remembers looks that found nothing to do, by Kyma. It is safe for concurrent use.
type settled struct {
	mu    sync.Mutex // guards what follows
	looks map[types.NamespacedName]settledLook
	// changes counts what changed of the Secrets for a runtime, by Kyma.
	changes map[types.NamespacedName]int64
}

type settledLook struct {
	look
	until time.Time
}

// still reports whether an equal look found nothing to do a short while ago, and returns until when that stands.
func (s *settled) still(kyma types.NamespacedName, l look, now time.Time) (until time.Time, still bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.looks[kyma]
	return known.until, ok && known.look == l && now.Before(known.until)
}

// remember notes until when a look stands for equal ones, zero for none.
func (s *settled) remember(kyma types.NamespacedName, l look, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.looks == nil {
		s.looks = map[types.NamespacedName]settledLook{}
	}
	s.looks[kyma] = settledLook{l, until}
}

// change notes that something changed which is no part of a Kyma: no look that began before counts any more, nor the one that is under way.
func (s *settled) change(kyma types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changes == nil {
		s.changes = map[types.NamespacedName]int64{}
	}
	s.changes[kyma]++
}

// changed returns how often change was called for a Kyma.
func (s *settled) changed(kyma types.NamespacedName) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changes[kyma]
}

// forget drops a Kyma that is gone.
func (s *settled) forget(kyma types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.looks, kyma)
	delete(s.changes, kyma)
}

// settles returns until when a look at a Kyma stands for the next ones, zero when it does not: something was written, is wrong or is waited for.
// A runtime that may fall silent is looked at when that happens, and one that takes no newer bundle when that is no health any more.
func settles(before, after *v1beta2.Kyma, facts ingest.Facts, outcome publish.Outcome, now time.Time, interval time.Duration) time.Time {
	wrong := facts.PublishError != nil || facts.SecretsError != nil || facts.ReportRefused != nil || facts.ReportUnread != nil || len(outcome.Problems) > 0
	busy := outcome.Pushed || outcome.Unrecorded || outcome.Deviation != nil || !after.DeletionTimestamp.IsZero()
	if wrong || busy || !meta.IsStatusConditionTrue(after.Status.Conditions, v1beta2.ConditionReporting) || ingest.Notable(before.Status, after.Status) {
		return time.Time{}
	}
	until := now.Add(min(settlesFor*interval, max(interval, settlesAtMost)))
	changes := []time.Time{plan.Heard(after).Add(facts.Silence), ingest.NotedUntil(before.Status)}
	if taken := ingest.TakenUntil(after.Status, facts.Silence); now.Before(taken) {
		changes = append(changes, taken)
	}
	for _, earlier := range changes {
		if earlier.Before(until) {
			until = earlier
		}
	}
	return until
}
