package ui

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

const maxCauses = 6

type overview struct {
	Query    query
	All      healthTally
	Tiles    []tile
	Causes   []causeGroup
	More     int
	Rollouts []rolloutView
	Warnings []fleet.Cause
	// Reading is the progress while the Kymas are being read, or nil afterwards.
	Reading *reading

	// Shown contains the runtimes on this page. A grouped page sets Groups instead.
	Shown   []*fleet.Runtime
	Groups  []group
	Grouped string
	Cut     bool
	Found   healthTally
	First   int
	Last    int
	Pages   int
	Filters filters
	// MayAct reports whether the viewer is permitted to change the found runtimes. ActAddress is the path for action
	// forms.
	MayAct     bool
	ActAddress string
	Done       string

	fleet *snapshot
}

// Link returns the link to a runtime's page.
func (o overview) Link(r *fleet.Runtime) runtimeLink { return o.fleet.link(r) }

// bulkOffer is an action with the number of found runtimes to which it applies.
type bulkOffer struct {
	runtimeAction
	Count int
}

// Offers returns the actions that apply to at least one found runtime.
func (o overview) Offers() (offers []bulkOffer) {
	for _, action := range runtimeActions {
		count := 0
		for health, n := range o.Found.by {
			if action.appliesTo(health) {
				count += n
			}
		}
		if count > 0 {
			offers = append(offers, bulkOffer{action, count})
		}
	}
	return offers
}

// tile shows the number of runtimes with one health value and links to these runtimes.
type tile struct {
	Health  fleet.Health
	Count   int
	Address string
	Chosen  bool
}

type filters struct {
	Channels, Modules, Versions []string
	Healths                     []fleet.Health
	States                      []v1beta2.State
	Groupings                   []grouping
	// Columns contains the label keys that the table can show.
	Columns []string
	Active  []activeFilter
}

// activeFilter is one filter of the query. Without is the page's address without this filter.
type activeFilter struct{ Name, Value, Without string }

func (p *pages) overview(w http.ResponseWriter, r pageRequest) {
	s, q := r.fleet, parseQuery(r.URL.Query())
	page := overview{Query: q, Warnings: s.Warnings, Reading: r.progress, Filters: s.filters(q), fleet: s}
	for i := range s.Runtimes {
		page.All.add(s.Runtimes[i].Health)
	}
	for _, h := range healthOrder {
		t := tile{Health: h, Count: page.All.by[h], Address: query{}.With("health", string(h)), Chosen: q.Health == h}
		if t.Chosen {
			t.Address = "/"
		}
		page.Tiles = append(page.Tiles, t)
	}
	page.Causes, page.More = s.causes, max(0, len(s.causes)-maxCauses)
	page.Causes = page.Causes[:min(len(page.Causes), maxCauses)]
	for i := range s.Rollouts {
		if s.Rollouts[i].Active {
			page.Rollouts = append(page.Rollouts, viewRollout(&s.Rollouts[i], p.Now()))
		}
	}
	page.list(s)
	page.Done, page.ActAddress = doneMessages[r.URL.Query().Get("done")], q.actAddress()
	page.MayAct = page.Reading == nil && page.Grouped == "" && page.Found.Total > 0 &&
		p.mayAct(r, client.ObjectKey{Namespace: p.Source.namespace})
	p.render(w, r, "overview", http.StatusOK, frame{
		Title: "Fleet", Section: "fleet", Live: r.progress == nil, Body: page,
	})
}

// list sets the runtimes on the requested page, or their groups.
func (o *overview) list(s *snapshot) {
	var matching []*fleet.Runtime
	for _, i := range s.worstFirst {
		if r := &s.Runtimes[i]; o.Query.matches(r, s.keys[i]) {
			matching = append(matching, r)
			o.Found.add(r.Health)
		}
	}
	for _, way := range o.Filters.Groupings {
		if way.Name == o.Query.Group {
			o.Grouped = way.Title
			o.Groups = way.count(matching, o.Query)
			o.Cut = len(o.Groups) > maxGroups
			o.Groups = o.Groups[:min(len(o.Groups), maxGroups)]
			return
		}
	}
	sortBy(o.Query.Sort, matching)
	o.Pages = max(1, (len(matching)+pageSize-1)/pageSize)
	o.Query.Page = min(o.Query.Page, o.Pages)
	first := (o.Query.Page - 1) * pageSize
	o.Shown = matching[first:min(first+pageSize, len(matching))]
	o.First, o.Last = first+1, first+len(o.Shown)
}

// sortBy sorts runtimes by a column. Runtimes with equal values keep their order, worst health first.
func sortBy(column string, runtimes []*fleet.Runtime) {
	switch column {
	case "id":
		slices.SortStableFunc(runtimes, func(a, b *fleet.Runtime) int { return cmp.Compare(a.ID, b.ID) })
	case "channel":
		slices.SortStableFunc(runtimes, func(a, b *fleet.Runtime) int { return cmp.Compare(a.Channel, b.Channel) })
	case "report":
		slices.SortStableFunc(runtimes, func(a, b *fleet.Runtime) int {
			return cmp.Compare(lastReport(a),
				lastReport(b))
		})
	}
	if key, isLabel := strings.CutPrefix(column, "label:"); isLabel {
		slices.SortStableFunc(runtimes, func(a, b *fleet.Runtime) int {
			return cmp.Compare(a.Labels[key], b.Labels[key])
		})
	}
}

// lastReport returns a sort key that orders runtimes by their last report: never, oldest, newest.
func lastReport(r *fleet.Runtime) int64 {
	switch {
	case r.Reporting:
		return 1 << 62
	case r.LastReport == nil:
		return 0
	}
	return r.LastReport.Unix()
}

func (s *snapshot) filters(q query) filters {
	f := filters{
		Channels: s.channels, Healths: healthOrder, Groupings: groupings(s, q), Columns: s.columns,
		States: []v1beta2.State{
			v1beta2.StateError,
			v1beta2.StateWarning,
			v1beta2.StateProcessing,
			v1beta2.StateDeleting,
			v1beta2.StateReady,
			v1beta2.StateUnmanaged,
		},
	}
	for i := range s.Modules {
		m := &s.Modules[i]
		f.Modules = append(f.Modules, m.Name)
		if m.Name == q.Module {
			for _, v := range m.Versions {
				f.Versions = append(f.Versions, valueName(v.Version))
			}
		}
	}
	f.Modules, f.Versions = firstChoices(f.Modules), firstChoices(f.Versions)
	for _, key := range q.Columns() {
		if !slices.Contains(f.Columns, key) { // a link can contain a key that no runtime has
			f.Columns = append([]string{key}, f.Columns...)
		}
	}
	titles := map[string]string{"q": "Search", "agent": "Agent", "kubernetes": "Kubernetes"}
	for _, field := range q.fields() {
		if *field.value == "" || slices.Contains([]string{"group", "column", "sort"}, field.name) {
			continue
		}
		value := *field.value
		if field.name == "cause" {
			value = s.causeText(value)
		}
		name := titles[field.name]
		if name == "" {
			name = strings.ToUpper(field.name[:1]) + field.name[1:]
		}
		f.Active = append(f.Active, activeFilter{name, value, q.With(field.name, "")})
	}
	return f
}
