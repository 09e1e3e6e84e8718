package controller

import (
	"cmp"
	"context"
	"sync"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
)

// PlannedGit connects the planner to the Git repository that it follows and to the shards. The shards stop publishing
// while the planner applies a commit.
type PlannedGit struct {
	// Source returns the current commit, or nil before a commit is known.
	Source func() *bundle.Source
	// Compared returns when the last successful comparison started, or zero. A comparison is successful if it finds the
	// newest commit completely applied in the control plane.
	Compared func() time.Time
	// Compare requests a new comparison. Requested reports whether a shard has requested a comparison since the last
	// call to Requested.
	Compare   func()
	Requested func() bool
	// Holding returns the reason why publishing has stopped, or "".
	Holding func() string
	// Approvals returns the removals that an operator approved for the current commit.
	Approvals func() shard.Approvals
	// WriteApprovals stores encoded approvals for the shards.
	WriteApprovals func(ctx context.Context, data []byte) error
	// Acknowledged waits until no shard uses an older announcement than the last one.
	Acknowledged func(ctx context.Context) error
}

// lastAnnouncement contains the parts of the planner's last announcement to the shards.
type lastAnnouncement struct {
	mu sync.Mutex // guards the fields below, and is locked during an announcement
	// result is the result of the last evaluation of the Rollouts: the fields State, Active and Refused. Hold sets State
	// to "".
	result shard.Announcement
	// applied is the time at which a release function from Hold was last called, in Unix nanoseconds, or 0.
	applied int64
	// approved is the digest of the approvals that were written last.
	approved string
	// lastError is the last logged error from an announcement, and unapproved is the last logged error from storing
	// approvals.
	lastError, unapproved string
}

// Hold stops publishing in this process until release is called. To also stop publishing in the shards, call Stop
// afterwards.
func (p *Planner) Hold() (release func()) {
	done := p.catalog.Hold()
	p.announcing.mu.Lock()
	defer p.announcing.mu.Unlock()
	p.announcing.result.State = "" // the next evaluation sets it
	return sync.OnceFunc(func() {
		p.announcing.mu.Lock()
		p.announcing.applied = max(time.Now().UnixNano(), p.announcing.applied+1)
		p.announcing.mu.Unlock()
		done()
	})
}

// Stop returns after every shard has stopped publishing. The caller must have called Hold.
func (p *Planner) Stop(ctx context.Context) error {
	p.announcing.mu.Lock()
	err := p.sendAnnouncement(ctx)
	p.announcing.mu.Unlock()
	if err != nil {
		return err
	}
	return p.git.Acknowledged(ctx)
}

// announceState announces the result of evaluating the Rollouts with this catalog. If the catalog has changed since
// the evaluation, announceState does nothing, because another evaluation follows.
func (p *Planner) announceState(
	ctx context.Context, evaluated *catalog.Snapshot, result shard.Announcement,
) error {
	p.announcing.mu.Lock()
	defer p.announcing.mu.Unlock()
	if p.catalog.isChanging() || p.catalog.Snapshot() != evaluated {
		return nil
	}
	p.active.Store(result.Active)
	p.announcing.result = result
	return p.sendAnnouncement(ctx)
}

// announceAgain repeats the announcement, so that it contains the current commit even if no evaluation follows.
func (p *Planner) announceAgain(ctx context.Context) {
	if p.git == nil {
		return
	}
	requested := p.git.Requested()
	if requested {
		p.git.Compare()
	}
	p.announcing.mu.Lock()
	defer p.announcing.mu.Unlock()
	if requested {
		p.announcing.approved = "" // write the approvals again, because another client may have changed or deleted them
	}
	err, text := p.sendAnnouncement(ctx), ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != p.announcing.lastError && ctx.Err() == nil {
		ctrl.LoggerFrom(ctx).Error(err, "failed to announce the Git commit to the shards")
	}
	p.announcing.lastError = text
}

// sendAnnouncement announces the current state and commit. The caller must hold p.announcing.mu.
func (p *Planner) sendAnnouncement(ctx context.Context) error {
	now := &p.announcing
	a := now.result
	if p.git == nil {
		return p.Announce(ctx, a)
	}
	approved, err := p.sendApprovals(ctx)
	if err != nil {
		return err
	}
	a.Commit = shard.Commit{Applied: now.applied, Approved: approved}
	if source := p.git.Source(); source != nil {
		a.Commit.Repository, a.Commit.Hash = source.Repository, source.Commit
	}
	if at := p.git.Compared(); !at.IsZero() {
		a.Commit.Compared = at.UnixNano()
	}
	if a.State == "" || p.catalog.isChanging() {
		a.State, a.Held = "", cmp.Or(p.git.Holding(), "the planner is reading the control plane's objects")
	}
	return p.Announce(ctx, a)
}

// sendApprovals stores the current commit's approvals and returns their digest.
func (p *Planner) sendApprovals(ctx context.Context) (digest string, err error) {
	data, digest, err := p.git.Approvals().Encode()
	if err != nil {
		if text := err.Error(); text != p.announcing.unapproved {
			ctrl.LoggerFrom(ctx).Error(err, "failed to encode a commit's approved removals for the shards")
			p.announcing.unapproved = text
		}
		return "", nil // the removals wait until an operator approves them in each Kyma
	}
	if digest == "" || digest == p.announcing.approved {
		return digest, nil
	}
	if err := p.MayWrite(); err != nil { // a former planner must not replace the approvals
		return "", err
	}
	if err := p.git.WriteApprovals(ctx, data); err != nil {
		return "", err
	}
	p.announcing.approved = digest
	return digest, nil
}
