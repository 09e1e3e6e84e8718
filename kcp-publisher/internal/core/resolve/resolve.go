// Package resolve decides what one runtime shall run: what its Kyma asks for, the catalog and the contents of
// components go in, the bundle's documents come out. It is pure: equal inputs give equal bytes, in any order, and it
// never asks anybody.
package resolve

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/window"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/takeover/phase"
)

// Request is what one runtime asks for.
type Request struct {
	// Labels are those of the Kyma in the control plane.
	Labels map[string]string
	// Carried are the labels that the runtime's Kyma gets because the operator says so. They may name whose runtime it is,
	// which then shares no document with another one's.
	Carried map[string]string
	// Seed is what a runtime without a Kyma gets: the spec that its own had last, or that of the Kyma in the control plane
	// before it had one.
	Seed v1beta2.KymaSpec
	// Asked is what is resolved: the spec of the runtime's own Kyma once it is known, else Seed.
	Asked v1beta2.KymaSpec
	// Settings tune the agent.
	Settings bundle.Settings
	// Watchers are those of the control plane, sorted by name.
	Watchers []bundle.Watcher
	// Maintenance is when modules that require downtime may be upgraded, nil for any time.
	Maintenance *window.Schedule
	// Leaving are modules that the runtime still has and does not ask for any more, by name and channel.
	Leaving []v1beta2.Module
	// NoCatalog keeps the catalog from the runtime, NoModuleCopy the modules of Seed.
	NoCatalog, NoModuleCopy bool
	// ControlPlane says that the runtime is the control plane's own cluster.
	ControlPlane bool
	// Deleting says that the Kyma is deleted: nothing is asked for any more, and nothing is offered.
	Deleting bool
	// Gates say which version the runtime may have where that is another one than its channel's.
	Gates map[rollout.Track]rollout.Decision
	// Shown are the versions that the runtime's catalog shows where a rollout holds back what the channel has.
	Shown map[rollout.Track]string
	// Checks are the checks that a rollout gives with its version. A module without an entry keeps those of its version.
	Checks map[rollout.Track]rollout.Checks
	// Last is the desired state published last, nil for the first: what does not resolve keeps its manifest in it.
	Last *bundle.DesiredState
	// Versions are what the runtime was given or has, by module: none goes below without a rollback, whether or not Last
	// has it.
	Versions map[string]string
	// Running are the versions that the runtime still runs because what it was given instead is refused there, by module:
	// a module may go back to exactly that version, which changes nothing of what runs.
	Running map[string]string
	// Takeover is how far the runtime is taken over from lifecycle-manager, empty for one that is not.
	Takeover bundle.TakeoverPhase
	// Unheard says that it is not known yet what a runtime that is taken over asks for: it keeps what it has.
	Unheard bool
	// Inherited are the modules, sorted by name, that lifecycle-manager installed in the runtime and that the runtime has
	// not reported as its agent's yet: each stays at exactly its version.
	Inherited []phase.Inherited
	// Lacks are the features, sorted, that the runtime's agent is known not to understand: nothing that needs one of them
	// is written.
	Lacks []bundle.Feature
	// Values are the values in the annotation of the Kyma, nil for none. DefinedValues are the names of those that a module in the
	// catalog uses, sorted: resolution depends on them only, so runtimes with different values share their documents.
	Values        bundle.Values `json:"-"`
	DefinedValues []string
	// Staying are the modules, sorted, whose removal waits for an operator's approval: each keeps its manifest.
	Staying []string
	// Settling: it is not known yet whether the removals of Staying have to wait, so the bundle does not mention them.
	Settling bool
}

// KeepsAll reports whether nothing is removed from the runtime, whatever it asks for.
func (r Request) KeepsAll() bool { return r.Takeover == bundle.TakeoverRelease || r.Unheard }

// shown returns which version the catalog shows for a channel that is held back, nil when none is.
func (r Request) shown() func(module, channel string) string {
	if len(r.Shown) == 0 {
		return nil
	}
	return func(module, channel string) string { return r.Shown[rollout.Track{Module: module, Channel: channel}] }
}

// Result is what a runtime shall run.
type Result struct {
	State   bundle.DesiredState
	Catalog bundle.Catalog
	// Asked are the names of all modules that shall be there, resolved or not, sorted: what is not among them may go.
	Asked []string
	// Versions are those of the manifests, and of the request's of modules that are asked for and have no manifest.
	Versions map[string]string
	// Held are the modules that a rollout keeps from their channel's version. They are no part of the State: a rollout
	// that holds more runtimes, or fewer, does not touch them.
	Held []bundle.Problem
	// Remarks are what else is to be said of modules that are as they are meant to be: whose version a rollout took back,
	// and which stay at the version that lifecycle-manager installed.
	Remarks []bundle.Problem
	// LeftOut are the features of modules that are held back because the runtime's agent lacks them, sorted.
	LeftOut []bundle.Feature
}

// crds are what the agent needs to write a desired state.
var crds = []string{
	"kymas." + v1beta2.Group, "manifests." + v1beta2.Group, "modulereleasemetas." + v1beta2.Group, "moduletemplates." + v1beta2.Group,
}

// wish is one module that shall be there, with what the catalog says of it.
type wish struct {
	module v1beta2.Module
	choice catalog.Choice
	err    error
	gate   rollout.Decision
	// floor is the version below which only a rollback takes the module, empty for none.
	floor string
	// kept is what the catalog has of the floor, nil unless the choice is older and the last bundle does not have it
	// either.
	kept *catalog.Choice
	// revoked says that the Kyma may not have the module, nor the version of it that it got last.
	revoked bool
	// running is the version that the runtime says it runs instead of the one that it was given, empty when it runs that.
	running string
	// inherited is what lifecycle-manager installed of the module, nil for nothing or once the runtime's agent has it;
	// offered is the version that the module would have without it.
	inherited *phase.Inherited
	offered   string
	// settling: the module stays without a problem, because it is not known yet whether its removal has to wait.
	settling bool
}

func wishes(request Request, snapshot *catalog.Snapshot) []wish {
	if request.Deleting {
		return nil
	}
	kyma := labels.Set(request.Labels)
	var all []wish
	for _, choice := range snapshot.Mandatory() {
		all = append(all, wish{module: v1beta2.Module{Name: choice.Module, Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete}, choice: choice, err: choice.Err})
	}
	for _, module := range request.limited(snapshot).Modules {
		snapshot := snapshot.ProvidedBy(module.ControllerName)
		w := wish{module: module}
		if version := module.Pin(); version != "" {
			w.choice, w.err = snapshot.Pinned(module.Name, version, kyma)
		} else {
			w.lookup(request, snapshot, cmp.Or(module.Channel, request.Asked.Channel))
		}
		all = append(all, w)
	}
	all = stay(inherit(all, request, snapshot), request)
	for i := range all {
		all[i].keep(request, snapshot.ProvidedBy(all[i].module.ControllerName))
	}
	slices.SortFunc(all, func(a, b wish) int { return cmp.Compare(a.module.Name, b.module.Name) })
	return all
}

// limited returns what the request may decide, by the rule that agents with autonomy follow as well.
func (r Request) limited(snapshot *catalog.Snapshot) bundle.OwnRequest {
	mandatory := map[string]bool{}
	for _, choice := range snapshot.Mandatory() {
		mandatory[choice.Module] = true
	}
	return bundle.LimitRequest(r.Asked.Modules, func(module string) bool { return mandatory[module] })
}

// keep finds what a runtime has of the module: it stays where the choice is older.
func (w *wish) keep(request Request, snapshot *catalog.Snapshot) {
	last := lastManifest(request.Last, w.module.Name)
	w.floor, w.running = floor(last, request.Versions[w.module.Name]), request.Running[w.module.Name]
	if i := w.inherited; i != nil && (w.floor == "" || bundle.Older(w.floor, i.Version) || phase.Returned(request.Takeover, request.Last) && !w.choice.Mandatory) {
		w.floor = i.Version
	}
	// A channel that moves to a version which is not for the Kyma takes nothing: the Kyma stays at the version that it may
	// have.
	if w.revoked = catalog.Hidden(w.err); w.revoked && last != nil {
		_, err := snapshot.At(w.module.Name, last.Channel, last.Version, request.Labels)
		w.revoked = catalog.Hidden(err)
	}
	if w.err != nil || !w.downgrades() || last != nil && last.Version == w.floor {
		return
	}
	kept, err := snapshot.At(w.module.Name, w.choice.Channel, w.floor, request.Labels)
	if w.choice.Mandatory {
		kept, err = snapshot.Installed(w.module.Name, "", w.floor) // no Kyma may request it
	}
	if err == nil {
		w.kept = &kept
	}
}

// Needs returns the component versions whose contents Resolve will want to know.
func Needs(request Request, snapshot *catalog.Snapshot) []Need {
	var needs []Need
	for _, w := range slices.Concat(wishes(request, snapshot), leaving(request, snapshot), offers(request, snapshot)) {
		if w.err == nil {
			needs = append(needs, need(w.choice))
		}
		if w.kept != nil {
			needs = append(needs, need(*w.kept))
		}
	}
	return needs
}

func need(choice catalog.Choice) Need {
	return Need{Ref: refOf(choice), Descriptor: choice.Descriptor, NamesItself: choice.NamesItself}
}

// Resolve decides. A module that cannot be resolved keeps its last manifest and becomes a problem with a reason; the
// others are not affected.
func Resolve(request Request, snapshot *catalog.Snapshot, contents map[Ref]Content) Result {
	result := Result{
		State: bundle.DesiredState{
			Kyma:        seed(request),
			Manifests:   []bundle.Manifest{},
			CRDs:        crds,
			Settings:    request.Settings,
			Watchers:    request.Watchers,
			Maintenance: request.Maintenance,
		},
		Catalog: snapshot.Visible(request.Labels, request.shown()),
		Asked:   []string{},
	}
	result.State.Takeover = request.Takeover
	result.Versions = map[string]string{}
	switch {
	case request.Takeover == bundle.TakeoverRelease:
		return result.released(request)
	case request.Unheard:
		return result.keeping(request)
	}
	if request.Deleting {
		result.State.Watchers, result.State.Maintenance = nil, nil
	}
	if request.Deleting || request.NoCatalog {
		result.Catalog = bundle.Catalog{ModuleTemplates: []bundle.CatalogEntry{}, ModuleReleaseMetas: []bundle.CatalogEntry{}}
	}
	wanted := wishes(request, snapshot)
	if !request.Deleting {
		result.State.Problems = append(result.State.Problems, request.limited(snapshot).Ignored...)
	}
	for _, w := range wanted {
		result.add(w, request, contents)
	}
	for _, w := range offers(request, snapshot) {
		content, known := contents[refOf(w.choice)]
		if manifest, err := newManifest(w,
			content); known && err == nil && len(request.lacking(manifest))+len(request.undefined(manifest)) == 0 {
			result.State.Offers = append(result.State.Offers, *manifest)
		}
	}
	for _, w := range leaving(request, snapshot) {
		if slices.Contains(result.Asked, w.module.Name) || w.err != nil {
			continue
		}
		content, known := contents[refOf(w.choice)]
		if manifest, err := newManifest(w, content); known && err == nil && len(request.lacking(manifest)) == 0 {
			result.State.Leaving = append(result.State.Leaving, *manifest)
		}
	}
	result.fit(request)
	return result
}

// add decides about one module that is asked for.
func (r *Result) add(w wish, request Request, contents map[Ref]Content) {
	shall := !w.revoked || !w.module.Managed
	if shall {
		r.Asked = append(r.Asked, w.module.Name)
	}
	manifest, problem := decide(w, request.ControlPlane, lastManifest(request.Last, w.module.Name), contents)
	if missing := request.lacking(manifest); len(missing) > 0 {
		r.leaveOut(missing)
		manifest, problem = request.readable(lastManifest(request.Last, w.module.Name)), outdated(w.module.Name, missing)
	} else if err := bundle.UndefinedValues(w.module.Name, request.undefined(manifest)); err != nil {
		last := request.readable(lastManifest(request.Last, w.module.Name))
		manifest, problem = last, failure(reason.Of(err), "%v", err)
	}
	manifest = request.withChecks(manifest, w.gate)
	switch {
	case manifest != nil:
		r.State.Manifests = append(r.State.Manifests, *manifest)
		r.Versions[w.module.Name] = manifest.Version
	case shall && w.floor != "":
		r.Versions[w.module.Name] = w.floor
	}
	channel := cmp.Or(w.module.Channel, request.Asked.Channel)
	if w.choice.Mandatory {
		channel = ""
	}
	if problem != nil {
		problem.Module, problem.Channel = w.module.Name, channel
		r.State.Problems = append(r.State.Problems, *problem)
	}
	if held := w.holds(); held != "" && problem == nil {
		r.Remarks = append(r.Remarks, bundle.Problem{Module: w.module.Name, Channel: channel, State: v1beta2.StateReady, Message: held})
	}
	if w.gate.Held == "" || manifest == nil {
		return
	}
	told := &r.Held
	if w.gate.Undo != "" {
		told = &r.Remarks
	}
	*told = append(*told, bundle.Problem{Module: w.module.Name, Channel: channel, State: v1beta2.StateReady, Message: w.gate.Held})
}

// offers are all choices that a runtime with autonomy has.
func offers(request Request, snapshot *catalog.Snapshot) []wish {
	if request.Settings.Autonomy != bundle.AutonomyCatalog || request.Deleting {
		return nil
	}
	choices := snapshot.Offers(request.Labels)
	var all []wish
	for _, module := range slices.Sorted(maps.Keys(choices)) {
		for _, channel := range choices[module] {
			w := wish{module: v1beta2.Module{Name: module, Channel: channel, Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete}}
			w.lookup(request, snapshot, channel)
			if w.err == nil && !request.ControlPlane && w.forControlPlane() {
				continue
			}
			all = append(all, w)
		}
	}
	return all
}

// leaving are the modules on their way out, as the catalog has them now: their operators may need a newer version to
// let go.
func leaving(request Request, snapshot *catalog.Snapshot) []wish {
	var all []wish
	for _, module := range request.Leaving {
		if request.Gates[rollout.Track{Module: module.Name, Channel: module.Channel}].Held != "" {
			continue // it leaves as it is
		}
		w := wish{module: module}
		w.choice, w.err = snapshot.Lookup(module.Name, module.Channel, labels.Set(request.Labels))
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b wish) int { return cmp.Compare(a.module.Name, b.module.Name) })
	return all
}

// floor returns the newest of what a runtime has of a module: what was published last and what is remembered besides.
func floor(last *bundle.Manifest, remembered string) string {
	if last == nil || bundle.Older(last.Version, remembered) {
		return remembered
	}
	return last.Version
}

func lastManifest(last *bundle.DesiredState, module string) *bundle.Manifest {
	if last == nil {
		return nil
	}
	for i := range last.Manifests {
		if last.Manifests[i].Module == module {
			return &last.Manifests[i]
		}
	}
	return nil
}

// carried are the labels of a Kyma that its runtime always gets too; none names the runtime, so that equal runtimes
// share documents.
var carried = []string{v1beta2.LabelBeta, v1beta2.LabelInternal, v1beta2.LabelPurpose}

func seed(request Request) bundle.KymaSeed {
	s := bundle.KymaSeed{Spec: *request.Seed.DeepCopy(), Labels: map[string]string{
		v1beta2.LabelManagedBy: v1beta2.ManagedByKyma, v1beta2.LabelWatchedBy: v1beta2.ManagedByKyma,
	}}
	if request.NoModuleCopy {
		s.Spec.Modules = nil
	}
	// Their order says nothing; the API keeps them as a map.
	slices.SortFunc(s.Spec.Modules, func(a, b v1beta2.Module) int { return cmp.Compare(a.Name, b.Name) })
	maps.Copy(s.Labels, request.Carried)
	for _, label := range carried {
		if value, ok := request.Labels[label]; ok {
			s.Labels[label] = value
		}
	}
	return s
}

// Versions returns the versions of the manifests by module.
func Versions(state bundle.DesiredState) map[string]string {
	versions := make(map[string]string, len(state.Manifests))
	for _, m := range state.Manifests {
		versions[m.Module] = m.Version
	}
	return versions
}

// Removals returns the modules that shall go: those that may be there and are not asked for. installed are those that
// the runtime was told to have or says it has; confirmed are those it has shown to be gone.
func Removals(installed, asked []string, confirmed map[string]bool) []string {
	gone := map[string]bool{}
	for _, module := range installed {
		if !slices.Contains(asked, module) && !confirmed[module] {
			gone[module] = true
		}
	}
	return slices.Sorted(maps.Keys(gone))
}
