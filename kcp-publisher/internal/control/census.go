package control

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/resolve"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/rollout"
)

// inhabitant is a Kyma that is published to, with what it follows.
type inhabitant struct {
	kyma    *v1beta2.Kyma
	runtime string
	follows []resolve.Follow
}

// census gives the Kymas that are published to, in the order of their names. Of two for one runtime only the older is.
func census(kymas []v1beta2.Kyma, snapshot *catalog.Snapshot, clusterUID string) []inhabitant {
	byAge := make([]*v1beta2.Kyma, 0, len(kymas))
	for i := range kymas {
		if k := &kymas[i]; k.DeletionTimestamp.IsZero() && k.Labels[v1beta2.LabelSkipReconciliation] != v1beta2.True {
			byAge = append(byAge, k)
		}
	}
	slices.SortFunc(byAge, func(a, b *v1beta2.Kyma) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	seen := make(map[string]bool, len(byAge))
	all := make([]inhabitant, 0, len(byAge))
	alike := map[string][]resolve.Follow{} // a fleet has some hundred distinct wishes
	for _, kyma := range byAge {
		id := RuntimeID(kyma)
		if seen[id] {
			continue
		}
		seen[id] = true
		request := asked(kyma, clusterUID)
		key := wishes(request, snapshot)
		follows, done := alike[key]
		if !done {
			follows = resolve.Follows(request, snapshot)
			alike[key] = follows
		}
		all = append(all, inhabitant{kyma: kyma, runtime: id, follows: follows})
	}
	return all
}

// wishes gives the same text for requests that follow the same.
func wishes(request resolve.Request, snapshot *catalog.Snapshot) string {
	var text strings.Builder
	relevant := snapshot.Relevant(request.Labels)
	for _, key := range slices.Sorted(maps.Keys(relevant)) {
		fmt.Fprintf(&text, "%s=%s ", key, relevant[key])
	}
	fmt.Fprintf(&text, "%t %s", request.ControlPlane, request.Asked.Channel)
	for _, m := range request.Asked.Modules {
		for _, part := range []string{"\n", m.Name, " ", m.Channel, " ", m.Version, " ", strconv.FormatBool(m.Managed)} {
			text.WriteString(part)
		}
	}
	return text.String()
}

// followers gives the runtimes of each track, with what their Kymas say of the track's module.
func followers(all []inhabitant) map[rollout.Track]rollout.Followers {
	tracks := map[rollout.Track]rollout.Followers{}
	for i := range all {
		for _, follow := range all[i].follows {
			track := rollout.Track{Module: follow.Module, Channel: follow.Channel}
			seen, there := tracks[track]
			if !there {
				seen = rollout.Followers{Channel: follow.Version, Runtimes: make([]rollout.Runtime, 0, len(all)-i)}
			}
			seen.Runtimes = append(seen.Runtimes, known(all[i].kyma, all[i].runtime, follow.Module))
			tracks[track] = seen
		}
	}
	return tracks
}

// known is what a Kyma says of one module. Nothing in it is newer than what was written down.
func known(kyma *v1beta2.Kyma, id, module string) rollout.Runtime {
	r := rollout.Runtime{ID: id, Labels: kyma.Labels}
	status := kyma.Status.Runtime
	if status == nil {
		return r
	}
	// A runtime that nothing can be published to is as one that is away: nobody waits for it.
	if status.Observed != nil && !unpublishable(kyma) {
		r.Heard = status.Observed.Time.Time
	}
	if status.Published == nil {
		return r
	}
	r.Version = status.Published.Versions[module]
	given, ok := status.Published.Given[module]
	if !ok {
		return r
	}
	r.Given, r.State, r.Current = &given, given.State, given.State != ""
	for i := range kyma.Status.Modules {
		if m := &kyma.Status.Modules[i]; m.Name == module {
			r.Message, r.Waits = m.Message, m.Maintenance
		}
	}
	return r
}

func unpublishable(kyma *v1beta2.Kyma) bool {
	ready := meta.FindStatusCondition(kyma.Status.Conditions, v1beta2.ConditionReady)
	return ready != nil && ready.Reason == ingest.ReasonPublish
}

// movesRollouts lets through what may move a rollout. A report that says the same again is none of it: silence is noticed by time.
func movesRollouts() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*v1beta2.Kyma), e.ObjectNew.(*v1beta2.Kyma)
		return before.Generation != after.Generation || !maps.Equal(before.Labels, after.Labels) ||
			unpublishable(before) != unpublishable(after) || !equality.Semantic.DeepEqual(moving(before), moving(after))
	}}
}

func moving(kyma *v1beta2.Kyma) v1beta2.RuntimeStatus {
	if kyma.Status.Runtime == nil {
		return v1beta2.RuntimeStatus{}
	}
	return v1beta2.RuntimeStatus{Published: kyma.Status.Runtime.Published, Requested: kyma.Status.Runtime.Requested}
}
