package plan

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/silence"
)

// MemberCache caches the modules and channels that each Kyma follows, until the Kyma or the catalog changes. It is not
// safe for concurrent use.
type MemberCache struct {
	catalog *catalog.Snapshot
	members map[types.UID]member
	// follows caches the followed modules and channels. Kymas with the same request share an entry.
	follows *memo.Shared[requestKey, []resolve.FollowedChannel]
}

type member struct {
	version  string
	channels memo.Holder[requestKey, []resolve.FollowedChannel]
}

// requestKey is a hash of the parts of a request that determine the followed modules and channels.
type requestKey [sha256.Size]byte

// maxFollowsBytes limits the size of the cache in bytes. A limit is necessary because runtimes can send large requests.
const maxFollowsBytes = 32 << 20

func (c *MemberCache) reset(snapshot *catalog.Snapshot) {
	c.catalog, c.members = snapshot, nil
	c.follows = memo.NewShared(memo.Limit{Bytes: maxFollowsBytes}, followedBytes)
}

func followedBytes(_ requestKey, all []resolve.FollowedChannel) int {
	bytes := memo.EntryBytes + cap(all)*int(unsafe.Sizeof(resolve.FollowedChannel{}))
	for _, f := range all {
		bytes += len(f.Module) + len(f.Channel) + len(f.Version)
	}
	return bytes
}

// Member is a Kyma with the modules and channels that its request follows.
type Member struct {
	Kyma             *v1beta2.Kyma
	Runtime          string
	FollowedChannels []resolve.FollowedChannel
	// LastReport is the time of the runtime's last report. It can be later than the time in the Kyma's status.
	LastReport silence.LastReport
}

// Members is like MemberCache.Members, but does not use a cache.
func Members(kymas []v1beta2.Kyma, snapshot *catalog.Snapshot) []Member {
	return (&MemberCache{}).Members(kymas, snapshot)
}

// Members returns the Kymas whose runtimes get bundles, oldest Kyma first. It omits deleted and suspended Kymas, and
// Kymas that do not own their runtime.
func (c *MemberCache) Members(kymas []v1beta2.Kyma, snapshot *catalog.Snapshot) []Member {
	owners := NewOwners(kymas)
	all := make([]Member, 0, len(owners))
	for id, kyma := range owners {
		if kyma != nil && kyma.DeletionTimestamp.IsZero() && !IsSkipped(kyma) && RuntimeID(kyma) == id {
			all = append(all, Member{Kyma: kyma, Runtime: id, LastReport: LastReport(kyma, nil, time.Time{})})
		}
	}
	slices.SortFunc(all, func(a, b Member) int { return byAge(a.Kyma, b.Kyma) })
	if c.catalog != snapshot {
		c.reset(snapshot)
	}
	members := make(map[types.UID]member, len(all))
	for i := range all {
		kyma := all[i].Kyma
		known := c.members[kyma.UID]
		all[i].FollowedChannels = c.followedChannels(&known, kyma, snapshot)
		members[kyma.UID] = known
		delete(c.members, kyma.UID)
	}
	for _, gone := range c.members {
		gone.channels.Release()
	}
	c.members = members
	return all
}

// followedChannels returns the modules and channels that a Kyma follows. It returns nil for a Kyma with invalid
// annotations, because the publisher does not publish bundles for that Kyma.
func (c *MemberCache) followedChannels(
	known *member, kyma *v1beta2.Kyma, snapshot *catalog.Snapshot,
) []resolve.FollowedChannel {
	if known.version != "" && known.version == kyma.ResourceVersion {
		if follows, found := c.follows.Get(&known.channels); found {
			return follows
		}
	}
	known.version = kyma.ResourceVersion
	request, err := parseRequest(kyma)
	if err != nil {
		known.channels.Release()
		return nil
	}
	key := hashRequest(request, snapshot)
	if follows, found := c.follows.Share(&known.channels, key); found {
		return follows
	}
	fresh := resolve.FollowedChannels(request, snapshot)
	c.follows.Put(&known.channels, key, fresh)
	return fresh
}

// hashRequest returns the hash of a request. It prefixes each part of the request with its length, so that different
// requests have different keys.
func hashRequest(request resolve.Request, snapshot *catalog.Snapshot) requestKey {
	text := make([]byte, 0, 1024)
	add := func(parts ...string) {
		for _, part := range parts {
			text = append(binary.AppendUvarint(text, uint64(len(part))), part...)
		}
	}
	relevant := snapshot.RelevantLabels(request.Labels)
	text = binary.AppendUvarint(text, uint64(len(relevant)))
	for _, label := range slices.Sorted(maps.Keys(relevant)) {
		add(label, relevant[label])
	}
	add(strconv.FormatBool(request.IsControlPlane), request.Requested.Channel)
	for _, m := range request.Requested.Modules {
		add(m.Name, m.Channel, m.Version, m.ControllerName, strconv.FormatBool(m.Managed))
	}
	return sha256.Sum256(text)
}

// Tracks returns the runtimes that follow each track (a module in a channel), with the module's state in each runtime.
// It omits a track if atRest returns true. atRest can be nil.
func Tracks(all []Member, atRest func(track rollout.Track, channel string) bool) map[rollout.Track]rollout.Followers {
	tracks := map[rollout.Track]*rollout.Followers{}
	// Members with the same modules share a FollowedChannels slice. The tracks of a slice are computed only once.
	shared := map[*resolve.FollowedChannel][]*rollout.Followers{}
	for i := range all {
		addRemovalFollowers(all[i].Kyma, all[i].Runtime, all[i].LastReport, tracks)
		follows := all[i].FollowedChannels
		if len(follows) == 0 {
			continue
		}
		followed, done := shared[&follows[0]]
		if !done {
			followed = followersOf(follows, tracks, atRest)
			shared[&follows[0]] = followed
		}
		for n, seen := range followed {
			if seen == nil {
				continue
			}
			if seen.Runtimes == nil {
				seen.Runtimes = make([]rollout.Runtime, 0, len(all)-i)
			}
			seen.Runtimes = append(seen.Runtimes,
				moduleRuntime(all[i].Kyma, all[i].Runtime, follows[n].Module, all[i].LastReport))
		}
	}
	found := make(map[rollout.Track]rollout.Followers, len(tracks))
	for track, seen := range tracks {
		found[track] = *seen
	}
	return found
}

// followersOf returns the entries in tracks for the followed channels, and adds missing entries to tracks. If atRest
// returns true for a track, the returned entry is nil.
func followersOf(
	follows []resolve.FollowedChannel, tracks map[rollout.Track]*rollout.Followers,
	atRest func(rollout.Track, string) bool,
) []*rollout.Followers {
	all := make([]*rollout.Followers, len(follows))
	for i, follow := range follows {
		track := rollout.Track{Module: follow.Module, Channel: follow.Channel}
		if tracks[track] == nil {
			tracks[track] = &rollout.Followers{Channel: follow.Version}
		}
		if atRest == nil || !atRest(track, tracks[track].Channel) {
			all[i] = tracks[track]
		}
	}
	return all
}

// AffectsRollouts reports whether a change to a Kyma can affect a rollout.
func AffectsRollouts(before, after *v1beta2.Kyma) bool {
	return before.Generation != after.Generation || !maps.Equal(before.Labels, after.Labels) ||
		(publishFailureCondition(before) == nil) != (publishFailureCondition(after) == nil) ||
		!equality.Semantic.DeepEqual(newRolloutInput(before), newRolloutInput(after))
}

// rolloutInput contains those parts of a Kyma's status that affect rollouts.
type rolloutInput struct {
	v1beta2.RuntimeStatus
	// Reported contains the reported states of modules whose version was not selected by a rollout.
	Reported map[string]v1beta2.State
	// Unresolved contains the names and versions of modules that the publisher could not resolve.
	Unresolved []v1beta2.ModuleReasons
}

func newRolloutInput(kyma *v1beta2.Kyma) rolloutInput {
	status := kyma.Status.Runtime
	if status == nil {
		return rolloutInput{}
	}
	moves := rolloutInput{RuntimeStatus: v1beta2.RuntimeStatus{
		Published: status.Published, Requested: status.Requested, Removals: status.Removals,
	}}
	if r := status.Reasons; r != nil {
		for _, m := range r.Modules {
			if m.Version != "" {
				moves.Unresolved = append(moves.Unresolved, v1beta2.ModuleReasons{Name: m.Name, Version: m.Version})
			}
		}
	}
	if o := kyma.Status.Runtime.Observed; o != nil {
		// Compare the agent's features, because an upgraded agent may support checks.
		moves.Observed = &v1beta2.ObservedBundle{Features: o.Features}
	}
	if p := status.Published; p != nil {
		for module := range p.Versions {
			if _, given := p.Given[module]; given {
				continue
			}
			if state, current := reportedState(status, kyma.Status.Modules, module); current {
				if moves.Reported == nil {
					moves.Reported = map[string]v1beta2.State{}
				}
				moves.Reported[module] = state
			}
		}
	}
	return moves
}
