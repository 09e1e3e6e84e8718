package shard

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

// Announcement is the message from the planner to all shards.
type Announcement struct {
	// Holder is the name of the planner in the planner's Lease. Shards is the number of shards that the planner is
	// configured with.
	Holder string `json:"holder"`
	Shards int    `json:"shards"`
	// State identifies the control plane objects that the planner has processed. The planner has already written all
	// Rollouts that these objects require.
	State string `json:"state"`
	// Active is true while a rollout is in progress. Each shard then publishes the report times of its runtimes.
	Active bool `json:"active,omitempty"`
}

// Valid reports whether an Announcement has this number of shards and comes from holder. The caller must read holder
// from the planner's Lease.
func (a Announcement) Valid(shards int, holder string) bool {
	return a.State != "" && a.Shards == shards && a.Holder != "" && a.Holder == holder
}

// State returns a hash of the objects that determine the rollout decisions: the catalog, the RolloutPolicies, and the
// newest Rollout of each track. A Rollout's progress does not change the hash.
func State(catalog string, policies []fleet.RolloutPolicy, rollouts []fleet.Rollout) string {
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
	for _, r := range rollout.NewestOfAll(rollouts) {
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
