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

// Announcement is what the planner tells the shards.
type Announcement struct {
	// Holder is the planner, as it is named in its lease, and Shards how many shards it plans for.
	Holder string `json:"holder"`
	Shards int    `json:"shards"`
	// State is the newest state of the control plane for which every Rollout that it needs has been written.
	State string `json:"state"`
	// Active says that a rollout is under way, so that the planner has to know when runtimes were heard.
	Active bool `json:"active,omitempty"`
}

// Valid reports whether an announcement holds for a process with as many shards while the planner's lease has a holder.
func (a Announcement) Valid(shards int, holder string) bool {
	return a.State != "" && a.Shards == shards && a.Holder != "" && a.Holder == holder
}

// State names what gates depend on: the catalog, the policies, and the newest rollout of each module in each channel.
// How far a rollout has come is no part of it: that is written before anybody acts upon it, and whoever sees an earlier
// step of a rollout gives nobody more than a later one.
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
