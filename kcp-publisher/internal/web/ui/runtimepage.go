package ui

import (
	"maps"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

const (
	maxEvents = 30
	maxLabels = 30
)

type runtimePage struct {
	*fleet.Runtime
	// Link is the link to this page. Others contains the links to the other Kymas with the same runtime ID.
	Link   runtimeLink
	Others []runtimeLink

	Ready         int
	SortedLabels  []label
	PublishedInfo *v1beta2.PublishedBundle
	ObservedInfo  *v1beta2.ObservedBundle
	// Checks describes the reported results of the checks that rollouts require.
	Checks        []string
	LastOperation *v1beta2.LastOperation
	// Waits contains the modules that do not have the version of their channel yet.
	Waits  []fleet.RuntimeModule
	Events []event
	// Origins contains the origins of the published bundle's modules. OriginsError is set if they cannot be read.
	Origins      []bundle.Origin
	OriginsAsked bool
	OriginsError string
	EventsError  string
	Details      details
	// Newest is the latest published bundle, or nil. Earlier contains the bundles before Newest, newest first.
	Newest  *fleet.Bundle
	Earlier []fleet.Bundle
	// Offered contains the actions that the viewer may start.
	Offered []runtimeAction
	Done    string
}

type label struct{ Key, Value string }

// event is an Event about the runtime's Kyma.
type event struct {
	Reason, Message, Type string
	Time                  time.Time
	Count                 int32
}

// findRuntime returns the requested runtime. If several Kymas have its ID and the request does not name a Kyma, it
// returns the runtime of the owner, or the first runtime if the ID has no owner. If it returns nil, it has already
// responded with an error.
func (p *pages) findRuntime(w http.ResponseWriter, r pageRequest) *fleet.Runtime {
	id, name := r.PathValue("id"), r.URL.Query().Get(kymaParameter)
	all := r.fleet.byID[id]
	at := 0
	switch {
	case name != "":
		at = r.fleet.indexOfKyma(all, name)
	case len(all) > 1:
		kymas, err := p.Source.kymas(r.Context())
		if err != nil {
			p.showMessage(w, r, http.StatusServiceUnavailable, "Cannot find the runtime's Kyma", "Several Kymas have the "+
				"runtime ID "+cleanLine(100, id)+", and the Kymas cannot be read: "+err.Error())
			return nil
		}
		if owner := plan.NewOwners(kymas)[id]; owner != nil {
			at = max(0, r.fleet.indexOfKyma(all, owner.Name))
		}
	}
	if at < 0 || at >= len(all) {
		p.showMessage(w, r, http.StatusNotFound, "No such runtime", "No Kyma in namespace "+p.Source.namespace+
			" has the runtime ID "+cleanLine(100, id)+".")
		return nil
	}
	return &r.fleet.Runtimes[all[at]]
}

// indexOfKyma returns the position of a Kyma in the indexes of runtimes, or -1.
func (s *snapshot) indexOfKyma(runtimes []int, name string) int {
	return slices.IndexFunc(runtimes, func(i int) bool { return s.Runtimes[i].Kyma == name })
}

func (p *pages) runtime(w http.ResponseWriter, r pageRequest) {
	one := p.findRuntime(w, r)
	if one == nil {
		return
	}
	page := runtimePage{Runtime: one, Link: r.fleet.link(one), Ready: readyModules(one)}
	for _, i := range r.fleet.byID[one.ID] {
		if other := &r.fleet.Runtimes[i]; other != one {
			page.Others = append(page.Others, r.fleet.link(other))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(one.Labels)) {
		if len(page.SortedLabels) < maxLabels {
			page.SortedLabels = append(page.SortedLabels, label{key, one.Labels[key]})
		}
	}
	for _, m := range one.Modules {
		if m.Held != "" && !isWithdrawn(one.Cause) {
			page.Waits = append(page.Waits, m)
		}
	}
	page.Done = doneMessages[r.URL.Query().Get("done")]
	if p.mayAct(r, kymaKey(one)) {
		page.Offered = runtimeOffers(one.Health)
	}
	p.history(r, &page)
	p.render(w, r, "runtime", http.StatusOK, frame{
		Title: "Runtime " + cleanLine(100, page.Link.Text), Section: "fleet", Live: true, Body: page,
	})
}

func (p *pages) actOnRuntime(w http.ResponseWriter, r pageRequest) {
	one := p.findRuntime(w, r)
	if one == nil {
		return
	}
	address := r.fleet.link(one).Address
	p.performAction(w, r, kymaKey(one), []*fleet.Runtime{one}, address, address)
}

// isWithdrawn reports whether the runtime's problem is a version that a rollout withdrew. In this case, the page does
// not show modules as waiting for this version.
func isWithdrawn(cause *fleet.Cause) bool {
	return cause != nil && (cause.Situation == fleet.RolloutWithdrawn || cause.Situation == fleet.RolloutTookBack)
}

// history adds the runtime's bundles and Events to the page. It omits data that cannot be read.
func (p *pages) history(r pageRequest, page *runtimePage) {
	kyma, err := p.Source.kyma(r.Context(), page.Runtime)
	if err != nil {
		page.EventsError = "failed to read the Kyma: " + err.Error()
		return
	}
	page.LastOperation, page.Details = kyma.Status.LastOperation, p.readDetails(r, kyma)
	if s := kyma.Status.Runtime; s != nil {
		page.PublishedInfo, page.ObservedInfo = s.Published, s.Observed
		page.Checks = describeChecks(s.Published)
	}
	if p.Events != nil {
		events, err := p.Events(r.Context(), kyma)
		if err != nil {
			page.EventsError = err.Error()
		}
		page.Events = viewEvents(events)
	}
	var chain fleet.Chain
	if p.Chain != nil {
		page.OriginsAsked = true
		chain = p.known.readChain(r.Context(), page.ID, kyma, p.Chain)
	}
	page.timeline(fleet.Timeline(kyma, chain))
	if p.Origins != nil {
		page.OriginsAsked = true
		if page.Origins, err = p.known.cachedOrigins(r.Context(), page.ID, kyma, p.Origins); err != nil {
			page.OriginsError = err.Error()
		}
	}
}

func describeChecks(published *v1beta2.PublishedBundle) (all []string) {
	if published == nil {
		return nil
	}
	for _, module := range slices.Sorted(maps.Keys(published.Given)) {
		for _, outcome := range published.Given[module].Checks {
			all = append(all, module+": "+rollout.DescribeCheck(outcome))
		}
	}
	return all
}

func (page *runtimePage) timeline(bundles []fleet.Bundle) {
	for i := range bundles {
		b := &bundles[i]
		if page.PublishedInfo != nil && b.Digest == page.PublishedInfo.Digest {
			page.Newest = b
			continue
		}
		page.Earlier = append(page.Earlier, *b)
	}
}

// ListsInForce reports whether Earlier contains the bundle that the runtime has applied.
func (page runtimePage) ListsInForce() bool {
	return slices.ContainsFunc(page.Earlier, func(b fleet.Bundle) bool { return b.Outcome == fleet.OutcomeInForce })
}

func viewEvents(events []corev1.Event) []event {
	all := make([]event, 0, len(events))
	for i := range events {
		e := &events[i]
		at := e.LastTimestamp.Time
		if at.IsZero() {
			at = e.EventTime.Time
		}
		if at.IsZero() {
			at = e.CreationTimestamp.Time
		}
		count := e.Count
		if e.Series != nil {
			count = e.Series.Count
			at = e.Series.LastObservedTime.Time
		}
		all = append(all, event{Reason: e.Reason, Message: e.Message, Type: e.Type, Time: at, Count: count})
	}
	slices.SortStableFunc(all, func(a, b event) int { return b.Time.Compare(a.Time) })
	return all[:min(len(all), maxEvents)]
}

// Bundle returns the identity of the published bundle, or nil if the bundle was not verified.
func (page runtimePage) Bundle() *bundle.BundleIdentity {
	switch {
	case len(page.Origins) > 0:
		return &page.Origins[0].Bundle
	case page.Newest != nil:
		return page.Newest.Signed
	}
	return nil
}

// PublishedTone returns the tone of the published bundle, which determines its color and icon.
func (page runtimePage) PublishedTone() string {
	if page.Newest != nil {
		if tone := bundleTone(*page.Newest); tone == "bad" || tone == "lost" {
			return tone
		}
	}
	if page.Current() {
		return "good"
	}
	return "busy"
}

// Current reports whether the runtime has applied the latest published bundle.
func (page runtimePage) Current() bool { return page.Published != 0 && page.Published == page.InForce }
