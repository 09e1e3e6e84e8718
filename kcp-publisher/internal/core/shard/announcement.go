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

// Announcement is the planner's message to the shards.
type Announcement struct {
	// Holder is the planner's name in its lease. Shards is the planner's number of shards.
	Holder string `json:"holder"`
	Shards int    `json:"shards"`
	// State is the newest state of the control plane whose Rollouts have all been written.
	State string `json:"state"`
	// Active is true while a rollout is in progress. Shards then publish the times of their runtimes' reports.
	Active bool `json:"active,omitempty"`
}

// Valid reports whether an announcement has this number of shards and comes from holder, the holder of the planner's
// lease.
func (a Announcement) Valid(shards int, holder string) bool {
	return a.State != "" && a.Shards == shards && a.Holder != "" && a.Holder == holder
}

// State returns a hash of the inputs of gates: the catalog, the policies, and the newest rollout of each track. It
// ignores the progress of rollouts.
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
