package plan

import (
	"maps"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

// Published is a bundle in the registry.
type Published struct {
	Predicate bundle.Predicate
	Digest    digest.Digest
	State     bundle.DesiredState
	// StateBlob and CatalogBlob are the two documents.
	StateBlob   ocispec.Descriptor
	CatalogBlob ocispec.Descriptor
	// Versions are the versions of the bundle's manifests, and the last known versions of requested modules that do not
	// resolve. Only a rollback gives a module an older version.
	Versions map[string]string
	// Changes is the difference from Predicate.Previous, nil if it is unknown or affects all modules.
	Changes *Changes
}

// Wanted is the result of resolving a request.
type Wanted struct {
	Documents bundle.Documents
	// Asked are the requested modules, resolved or not.
	Asked []string
	// Versions are the versions of Published.
	Versions map[string]string
	// Agent is the agent's image in the settings, "" for none.
	Agent string
	// Critical are the features that an agent must understand to follow the documents.
	Critical []bundle.Feature
	// Values are the values of the runtime that the documents use.
	Values bundle.Values
	// KeepsAll: no module is removed, because they are given back or the runtime's request is not known yet.
	KeepsAll bool
}

// lastBundleValidity is the validity of a deleted Kyma's last bundle: its runtime may be offline for months.
const lastBundleValidity = 365 * 24 * time.Hour

// Next returns the statement of a runtime's next bundle and the first reason for publishing it. The reason is empty if
// the last bundle is up to date.
func Next(
	adopted Adopted, wanted Wanted, r Runtime, root trust.Root, validity time.Duration, now time.Time,
) (bundle.Predicate, Reason) {
	last, asked := adopted.Last, wanted.Asked
	next := bundle.Predicate{
		Audience: r.Audience, Epoch: root.Epoch, RootVersion: root.Version,
		IssuedAt: now.UTC().Truncate(time.Millisecond), ExpiresAt: now.UTC().Truncate(time.Millisecond).Add(validity),
		KymaGeneration: r.KymaGeneration, KymaSpec: r.KymaSpec, KymaUID: r.Kyma.UID, Deleting: r.Deleting,
		Source: r.Source, Certificate: r.Certificate, Sealed: r.Sealed,
	}
	next.Kyma, next.FormerKymas = namedKyma(r.Kyma), adopted.former(r)
	if r.Deleting {
		// No publisher renews it: the Kyma may be gone long before the runtime pulls it.
		next.ExpiresAt = next.IssuedAt.Add(max(validity, lastBundleValidity))
	}
	used, newest := r.used(root, now), adopted.Sequence
	if last != nil {
		newest = max(newest, sequenceIn(root, last.Predicate))
		next.Previous = &bundle.Position{Sequence: last.Predicate.Sequence, Digest: last.Digest}
	} else if r.Remembered != nil && r.Remembered.Digest != "" {
		next.Previous = &bundle.Position{Sequence: r.Remembered.Sequence, Digest: r.Remembered.Digest}
	}
	next.Sequence = bundle.NextSequence(max(used, newest), now)
	before := adopted.stated(r.Remembered)
	if !wanted.KeepsAll {
		next.Removals = before.pending(last, asked, r)
	}
	next.Critical, next.Values = wanted.Critical, wanted.Values
	next.Rollback = append(
		before.rollbacks(r.granted(), wanted.Versions, r.Observed),
		bundle.AgentRollbacks(r.AgentRollbackFrom, wanted.Agent)...,
	)
	switch {
	case adopted.Deviation != nil || last == nil && next.Previous != nil:
		return next, ReasonRegistryDiffers
	case last == nil:
		return next, ReasonFirst
	}
	if reason := contentReason(last, wanted.Documents, next, asked); reason != "" {
		return next, reason
	}
	if r.equivocates(last) {
		return next, ReasonSequenceBehind
	}
	return next, statementReason(last.Predicate, next, used, r.Validity, now)
}

// sequenceIn returns a bundle's sequence, 0 if the bundle is of another epoch than the root.
func sequenceIn(root trust.Root, p bundle.Predicate) int64 {
	if p.Epoch != root.Epoch {
		return 0
	}
	return p.Sequence
}

// pending returns the modules that may be in the runtime and are no longer requested. Each stays in the list until
// the runtime has applied a bundle that removes it and no longer reports it, because an agent may skip bundles.
func (s lastStated) pending(last *Published, asked []string, r Runtime) []string {
	known := slices.Collect(maps.Keys(r.granted()))
	known = append(append(known, r.Installed...), s.removals...)
	if last != nil {
		known = append(known, slices.Collect(maps.Keys(resolve.Versions(last.State)))...)
	}
	confirmed := map[string]bool{}
	if s.digest != "" && r.Observed == s.digest && !r.LeavesModulesOut {
		for _, module := range s.removals {
			confirmed[module] = !slices.Contains(r.Installed, module)
		}
	}
	return resolve.Removals(known, asked, confirmed)
}
