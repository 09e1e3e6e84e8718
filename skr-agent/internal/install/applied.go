package install

import (
	"context"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// correctApplied corrects drift of the last applied version while the requested version is refused. It returns the
// changed objects that are not corrected yet.
func (up *upgrader) correctApplied(
	ctx context.Context, m *v1beta2.Manifest, known *memo, changed object.Keys,
) object.Keys {
	was := up.ledger.lastApplied(m)
	if was == nil {
		return changed
	}
	applied := record.ReadUnverified(m).Applied
	version := applied.Version + " " + applied.Digest
	whole := known.keptVersion != version || up.now().Sub(known.keptAt) >= up.resync
	due, later, _ := known.corrections.split(changed, up.now())
	if whole {
		due, later = changed, object.Keys{}
	}
	if known.hasBegun || !whole && len(due) == 0 {
		return changed
	}
	p, problem, err := up.planner.plan(ctx, was)
	if err != nil || problem != nil {
		return changed // ignore it; the status reports the requested version only
	}
	// The last applied version must pass the same checks as a new version.
	if _, problem, err = up.checker.check(ctx, was, &p); err != nil || problem != nil {
		return changed
	}
	if !whole {
		p.KeepOnly(due)
	}
	p.LeaveUnread()
	corrected, wait, err := up.write(ctx, was, known, p, true, due)
	if len(corrected) > 0 {
		up.reporter.recordDrift(ctx, m, corrected)
		known.corrections.count(corrected, up.now())
	}
	if wait != "" {
		return changed
	}
	known.keptVersion, known.keptAt = version, up.now()
	left := later
	for k := range account.FailedKeys(err) {
		if changed.Has(k) {
			left[k] = struct{}{}
		}
	}
	if err != nil && len(account.FailedKeys(err)) == 0 {
		return changed
	}
	return left
}

// mustCorrectApplied reports whether the agent must correct drift of the last applied version, because it could not
// apply the requested version.
func mustCorrectApplied(m *v1beta2.Manifest, out outcome.Outcome) bool {
	if out.State != v1beta2.StateError || out.Forbidden && planning.IsLastApplied(m) {
		return false
	}
	return out.Untouched || planning.IsLastApplied(m)
}
