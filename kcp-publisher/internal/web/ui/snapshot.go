package ui

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

// maxChoices is the maximum number of values in a filter. Users can put other values into the address.
const maxChoices = 100

// kymaParameter is the parameter of a runtime page's address that selects one of the Kymas with the runtime's ID.
const kymaParameter = "kyma"

// snapshot is a fleet with the data that its pages share. It is immutable.
type snapshot struct {
	fleet.Fleet
	revision uint64
	// byID contains the indexes of the runtimes with an ID. Several Kymas can have the same runtime ID.
	byID     map[string][]int
	channels []string
	// labels contains the label keys that can group runtimes. columns contains all label keys.
	labels, columns []string
	causes          []causeGroup
	// keys contains the key of each runtime's causeGroup, or "" for a runtime without a problem.
	keys []string
	// worstFirst contains the indexes of all runtimes, the worst health first.
	worstFirst []int
}

// causeGroup counts the runtimes with the same health and the same most urgent problem.
type causeGroup struct {
	Key       string
	Health    fleet.Health
	Situation fleet.Situation
	Message   string
	Advice    string
	Runtimes  int
	// Example is the ID of one of these runtimes.
	Example string
}

func newSnapshot(f fleet.Fleet, revision uint64) *snapshot {
	s := &snapshot{Fleet: f, revision: revision, byID: make(map[string][]int, len(f.Runtimes))}
	channels, labels := map[string]int{}, map[string]int{}
	for i := range f.Runtimes {
		r := &f.Runtimes[i]
		s.byID[r.ID] = append(s.byID[r.ID], i)
		channels[r.Channel]++
		for key := range r.Labels {
			labels[key]++
		}
	}
	s.channels = firstChoices(slices.Sorted(maps.Keys(channels)))
	s.labels, s.columns = sharedLabels(labels, f.Runtimes), firstChoices(slices.Sorted(maps.Keys(labels)))
	s.keys = make([]string, len(f.Runtimes))
	for i := range f.Runtimes {
		if r := &f.Runtimes[i]; r.Cause != nil && r.Health != fleet.Healthy {
			s.keys[i] = causeKey(r)
		}
	}
	s.causes = groupCauses(f.Runtimes, s.keys)
	s.worstFirst = make([]int, len(f.Runtimes))
	for i := range s.worstFirst {
		s.worstFirst[i] = i
	}
	slices.SortStableFunc(s.worstFirst, func(a, b int) int {
		return healthRank(f.Runtimes[a].Health) - healthRank(f.Runtimes[b].Health)
	})
	return s
}

// runtimeLink is a link to a runtime's page.
type runtimeLink struct{ Text, Address string }

// link returns the link to a runtime. If several Kymas have the runtime ID, the link names the Kyma.
func (s *snapshot) link(r *fleet.Runtime) runtimeLink {
	link := runtimeLink{r.ID, "/runtimes/" + url.PathEscape(r.ID)}
	if len(s.byID[r.ID]) > 1 {
		link.Text += " (Kyma " + r.Kyma + ")"
		link.Address += "?" + url.Values{kymaParameter: {r.Kyma}}.Encode()
	}
	return link
}

func (s *snapshot) at(now time.Time) *snapshot {
	later := *s
	later.Time = now
	return &later
}

func firstChoices(all []string) []string { return all[:min(len(all), maxChoices)] }

// sharedLabels returns the label keys that can group runtimes: at least two runtimes have the key, and at least two of
// them have the same value. It omits keys with more than maxChoices values.
func sharedLabels(keys map[string]int, runtimes []fleet.Runtime) []string {
	values := map[string]map[string]bool{}
	for i := range runtimes {
		for key, value := range runtimes[i].Labels {
			if values[key] == nil {
				values[key] = map[string]bool{}
			}
			if len(values[key]) <= maxChoices {
				values[key][value] = true
			}
		}
	}
	shared := slices.Sorted(maps.Keys(keys))
	shared = slices.DeleteFunc(shared, func(key string) bool {
		return keys[key] < 2 || len(values[key]) > maxChoices || len(values[key]) == keys[key]
	})
	return firstChoices(shared)
}

// groupCauses sorts the groups by health, worst first, and then by the number of runtimes, largest first.
func groupCauses(runtimes []fleet.Runtime, keys []string) []causeGroup {
	groups := map[string]*causeGroup{}
	for i := range runtimes {
		r, key := &runtimes[i], keys[i]
		if key == "" {
			continue
		}
		if groups[key] == nil {
			groups[key] = &causeGroup{
				Key: key, Health: r.Health, Situation: r.Cause.Situation, Message: r.Cause.Message,
				Advice: r.Cause.Advice, Example: r.ID,
			}
		}
		groups[key].Runtimes++
	}
	all := make([]causeGroup, 0, len(groups))
	for _, g := range groups {
		all = append(all, *g)
	}
	slices.SortFunc(all, func(a, b causeGroup) int {
		return cmp.Or(healthRank(a.Health)-healthRank(b.Health), b.Runtimes-a.Runtimes, cmp.Compare(a.Message, b.Message))
	})
	return all
}

func causeKey(r *fleet.Runtime) string {
	return string(r.Health) + "-" + string(r.Cause.Situation)
}

func (s *snapshot) causeText(key string) string {
	for i := range s.causes {
		if s.causes[i].Key == key {
			return s.causes[i].Message
		}
	}
	return "a problem that no runtime has anymore"
}

var healthOrder = []fleet.Health{
	fleet.Failing, fleet.Silent, fleet.NeverReported, fleet.Behind, fleet.Suspended, fleet.Deleting, fleet.Healthy,
}

func healthRank(h fleet.Health) int { return slices.Index(healthOrder, h) }
