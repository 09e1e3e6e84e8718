package shard

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

// Announcement is the message from the planner to all shards.
type Announcement struct {
	// Holder is the planner's name in its Lease. Shards is the planner's configured number of shards.
	Holder string `json:"holder"`
	Shards int    `json:"shards"`
	// State identifies the control plane objects that the planner has processed. The planner has already written all
	// Rollouts that these objects require. State is empty while publishing has stopped because of a Git commit. Shards
	// that run an older program version without the field Held then stop, too.
	State string `json:"state"`
	// Held is the reason why publishing has stopped, or empty. While it is set, shards only renew bundles.
	Held string `json:"held,omitempty"`
	// Number identifies the announcement. It increases with each announcement of a planner. Each process writes the
	// last number that it has read to its heartbeat.
	Number int64 `json:"number,omitempty"`
	// Commit is the applied Git commit, or zero if the planner does not follow a repository.
	Commit Commit `json:"commit,omitzero"`
	// Active is true while a rollout is in progress. Each shard then publishes the report times of its runtimes.
	Active bool `json:"active,omitempty"`
	// Refused contains the Rollouts that the planner cannot create.
	Refused []rollout.RefusedRollout `json:"refused,omitempty"`
}

// Equal reports whether both announcements have the same content.
func (a Announcement) Equal(b Announcement) bool {
	return equality.Semantic.DeepEqual(a, b)
}

// Commit describes the Git commit that the control plane's objects were applied from.
type Commit struct {
	// Repository and Hash identify the commit. They are empty if no commit has been applied yet.
	Repository string `json:"repository,omitempty"`
	Hash       string `json:"hash,omitempty"`
	// Applied is the time at which publishing last continued after a commit was applied, in Unix nanoseconds. A shard
	// publishes only after its caches contain all changes before this time.
	Applied int64 `json:"applied,omitempty"`
	// Compared is the start of the last comparison that found the newest commit completely applied, in Unix
	// nanoseconds.
	Compared int64 `json:"compared,omitempty"`
	// Approved is the digest of the removals that an operator approved for the commit, or empty.
	Approved string `json:"approved,omitempty"`
}

// Current is like IsValid, but also returns true for an announcement that stops publishing and therefore does not have
// a State.
func (a Announcement) Current(shards int, holder string) bool {
	state := a
	if a.Held != "" {
		state.State = a.Held
	}
	return state.IsValid(shards, holder)
}

// Supersedes reports whether a is newer than other or comes from another planner. It returns false for an older
// announcement from the same planner, which a delayed write can restore.
func (a Announcement) Supersedes(other Announcement) bool {
	return a.Holder != other.Holder || a.Number >= other.Number
}

// IsValid reports whether an Announcement has this number of shards and comes from holder. The caller must read holder
// from the planner's Lease.
func (a Announcement) IsValid(shards int, holder string) bool {
	return a.State != "" && a.Shards == shards && a.Holder != "" && a.Holder == holder
}

// HashState returns a hash of the objects that determine the rollout decisions: the catalog revision, the
// RolloutPolicies, and the newest Rollout of each track. The hash does not depend on the progress of a Rollout.
func HashState(catalog string, policies []fleet.RolloutPolicy, rollouts []fleet.Rollout) string {
	type named struct {
		Name       string
		UID        types.UID
		Generation int64
		Deleted    bool
	}
	state := struct {
		Catalog            string
		Policies, Rollouts []named
	}{Catalog: catalog}
	for i := range policies {
		p := &policies[i]
		state.Policies = append(state.Policies, named{p.Name, p.UID, p.Generation, !p.DeletionTimestamp.IsZero()})
	}
	for _, r := range rollout.NewestRollouts(rollouts) {
		state.Rollouts = append(state.Rollouts, named{Name: r.Name, UID: r.UID})
	}
	for _, all := range [][]named{state.Policies, state.Rollouts} {
		slices.SortFunc(all, func(a, b named) int { return cmp.Compare(a.Name, b.Name) })
	}
	text, err := json.Marshal(state)
	if err != nil {
		panic("plain data always encodes: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}
