package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/resolve"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/rollout"
)

// Member is a Kyma that is published to, with what it follows.
type Member struct {
	Kyma    *v1beta2.Kyma
	Runtime string
	Follows []resolve.Follow
	// Hearing is as the Kyma's status says; whoever reads reports knows newer.
	Hearing Hearing
}

// Members returns the Kymas that are published to, the oldest first: not those that are deleted or skipped, and of those that name one
// runtime only its owner.
func Members(kymas []v1beta2.Kyma, snapshot *catalog.Snapshot) []Member {
	owners := NewOwners(kymas)
	all := make([]Member, 0, len(owners))
	for id, kyma := range owners {
		if kyma.DeletionTimestamp.IsZero() && !Skipped(kyma) && RuntimeID(kyma) == id {
			all = append(all, Member{Kyma: kyma, Runtime: id, Hearing: Hearing{At: Heard(kyma)}})
		}
	}
	slices.SortFunc(all, func(a, b Member) int { return byAge(a.Kyma, b.Kyma) })
	alike := map[string][]resolve.Follow{} // a fleet has some hundred distinct requests
	for i := range all {
		request, err := asked(all[i].Kyma)
		if err != nil {
			continue // nothing is published to it
		}
		key := followed(request, snapshot)
		follows, done := alike[key]
		if !done {
			follows = resolve.Follows(request, snapshot)
			alike[key] = follows
		}
		all[i].Follows = follows
	}
	return all
}

// followed returns the same text for requests that follow the same.
func followed(request resolve.Request, snapshot *catalog.Snapshot) string {
	var text strings.Builder
	relevant := snapshot.Relevant(request.Labels)
	for _, key := range slices.Sorted(maps.Keys(relevant)) {
		fmt.Fprintf(&text, "%s=%s ", key, relevant[key])
	}
	fmt.Fprintf(&text, "%t %s", request.ControlPlane, request.Asked.Channel)
	for _, m := range request.Asked.Modules {
		for _, part := range []string{"\n", m.Name, " ", m.Channel, " ", m.Version, " ", m.ControllerName, " ", strconv.FormatBool(m.Managed)} {
			text.WriteString(part)
		}
	}
	return text.String()
}

// Tracks returns the runtimes of each track, with what their Kymas say of the track's module.
func Tracks(all []Member) map[rollout.Track]rollout.Followers {
	tracks := map[rollout.Track]rollout.Followers{}
	for i := range all {
		for _, follow := range all[i].Follows {
			track := rollout.Track{Module: follow.Module, Channel: follow.Channel}
			seen, there := tracks[track]
			if !there {
				seen = rollout.Followers{Channel: follow.Version, Runtimes: make([]rollout.Runtime, 0, len(all)-i)}
			}
			seen.Runtimes = append(seen.Runtimes, observed(all[i].Kyma, all[i].Runtime, follow.Module, all[i].Hearing))
			tracks[track] = seen
		}
	}
	return tracks
}

// observed returns what a Kyma says of one module. Nothing in it but the hearing is newer than what was written down.
func observed(kyma *v1beta2.Kyma, id, module string, hearing Hearing) rollout.Runtime {
	r := rollout.Runtime{ID: id, Labels: kyma.Labels}
	status := kyma.Status.Runtime
	if status == nil {
		return r
	}
	// A runtime that nothing can be published to is as one that is away: nobody waits for it.
	if !unpublishable(kyma) {
		r.Heard, r.Unnoted = hearing.At, hearing.Unnoted
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
	return ready != nil && ready.Reason == v1beta2.ReasonPublishFailed
}

// MovesRollouts reports whether a change of a Kyma may move a rollout. A report that says the same again does not: silence is noticed
// by time.
func MovesRollouts(before, after *v1beta2.Kyma) bool {
	return before.Generation != after.Generation || !maps.Equal(before.Labels, after.Labels) ||
		unpublishable(before) != unpublishable(after) || !equality.Semantic.DeepEqual(moving(before), moving(after))
}

func moving(kyma *v1beta2.Kyma) v1beta2.RuntimeStatus {
	if kyma.Status.Runtime == nil {
		return v1beta2.RuntimeStatus{}
	}
	return v1beta2.RuntimeStatus{Published: kyma.Status.Runtime.Published, Requested: kyma.Status.Runtime.Requested}
}
