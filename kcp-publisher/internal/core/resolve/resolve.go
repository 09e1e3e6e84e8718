// Package resolve decides the desired state of one runtime. Inputs are the request of its Kyma, the catalog, and the
// contents of components; outputs are the bundle's documents. It is pure: equal inputs give equal bytes, in any order.
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

// Request is the request of one runtime.
type Request struct {
	// Labels are the labels of the Kyma in the control plane.
	Labels map[string]string
	// Carried are the labels that the operator copies to the runtime's Kyma. A label with an identity makes the
	// runtime's documents differ from all others.
	Carried map[string]string
	// Seed is the spec for a runtime without a Kyma: the last spec of the runtime's own Kyma, or the spec of the Kyma
	// in the control plane before the first report.
	Seed v1beta2.KymaSpec
	// Asked is the spec to resolve: the spec of the runtime's own Kyma once it is known, Seed before.
	Asked v1beta2.KymaSpec
	// Settings tune the agent.
	Settings bundle.Settings
	// Watchers are the Watchers of the control plane, sorted by name.
	Watchers []bundle.Watcher
	// Maintenance is the schedule for upgrades of modules that require downtime, nil for any time.
	Maintenance *window.Schedule
	// Leaving are modules that the runtime still has and no longer requests, by name and channel.
	Leaving []v1beta2.Module
	// NoCatalog omits the catalog, and NoModuleCopy the modules of Seed.
	NoCatalog, NoModuleCopy bool
	// ControlPlane is true for the control plane's own cluster.
	ControlPlane bool
	// Deleting is true for a deleted Kyma: it requests nothing and gets no offers.
	Deleting bool
	// Gates contain the versions that the runtime may have, if they differ from the channel's.
	Gates map[rollout.Track]rollout.Decision
	// Shown are the versions in the runtime's catalog for channels that a rollout holds back.
	Shown map[rollout.Track]string
	// Checks are the checks that a rollout adds to its version. A module without an entry keeps the checks of its
	// version.
	Checks map[rollout.Track]rollout.Checks
	// Last is the desired state that was published last, nil before the first. A module that does not resolve keeps its
	// manifest in it.
	Last *bundle.DesiredState
	// Versions are the published or reported versions by module. No module goes below its version without a rollback,
	// whether or not Last contains it.
	Versions map[string]string
	// Running are the versions that still run because the runtime refused the published ones, by module. A module may
	// return to exactly that version.
	Running map[string]string
	// Takeover is the runtime's phase in a takeover from lifecycle-manager, empty without one.
	Takeover bundle.TakeoverPhase
	// Unheard is true if the request of a runtime in takeover is not known yet: the runtime keeps its modules.
	Unheard bool
	// Inherited are the modules, sorted by name, that lifecycle-manager installed and that the runtime's agent has not
	// reported yet. Each stays at exactly its version.
	Inherited []phase.Inherited
	// Lacks are the features, sorted, that the runtime's agent does not support. The documents use none of them.
	Lacks []bundle.Feature
	// Values are the values in the annotation of the Kyma, nil without any. DefinedValues are their names that a module
	// in the catalog uses, sorted. Resolution depends on the names only, so runtimes with different values share their
	// documents.
	Values        bundle.Values `json:"-"`
	DefinedValues []string
	// Staying are the modules, sorted, whose removal waits for an operator's approval. Each keeps its manifest.
	Staying []string
	// Settling is true until the publisher knows whether the removals of Staying must wait. The bundle does not mention
	// them until then.
	Settling bool
}

// KeepsAll reports whether nothing is removed from the runtime, whatever its request.
func (r Request) KeepsAll() bool { return r.Takeover == bundle.TakeoverRelease || r.Unheard }

// shown returns a function for the version that the catalog shows for a channel that is held back, nil if no channel
// is.
func (r Request) shown() func(module, channel string) string {
	if len(r.Shown) == 0 {
		return nil
	}
	return func(module, channel string) string { return r.Shown[rollout.Track{Module: module, Channel: channel}] }
}

// Result is the desired state of a runtime.
type Result struct {
	State   bundle.DesiredState
	Catalog bundle.Catalog
	// Asked are the names of all requested modules, resolved or not, sorted. Other modules may be removed.
	Asked []string
	// Versions are the versions of the manifests, and the versions of the request for requested modules without a
	// manifest.
	Versions map[string]string
	// Held are the modules that a rollout keeps from their channel's version. They are not part of the State, so a
	// rollout that holds more or fewer runtimes does not change it.
	Held []bundle.Problem
	// Remarks are messages about modules in their desired version: the ones whose newer version a rollout took back,
	// and the ones that stay at the version of lifecycle-manager.
	Remarks []bundle.Problem
	// LeftOut are the features of held modules that the runtime's agent lacks, sorted.
	LeftOut []bundle.Feature
}

// crds are the definitions that the agent needs to write a desired state.
var crds = []string{
	"kymas." + v1beta2.Group, "manifests." + v1beta2.Group, "modulereleasemetas." + v1beta2.Group,
	"moduletemplates." + v1beta2.Group,
}

// wish is a requested module with its choice from the catalog.
type wish struct {
	module v1beta2.Module
	choice catalog.Choice
	err    error
	gate   rollout.Decision
	// floor is the lowest version without a rollback, empty for any.
	floor string
	// kept is the choice for the floor, nil unless both the choice and the last bundle are older or lack it.
	kept *catalog.Choice
	// revoked is true if the Kyma may have neither the module nor its last version.
	revoked bool
	// running is the version that the runtime runs instead of the published one, empty if they are equal.
	running string
	// inherited is the module as lifecycle-manager installed it, nil without one or once the runtime's agent has it.
	// offered is the version that the module would have without it.
	inherited *phase.Inherited
	offered   string
	// settling is true for a module that stays without a problem until the publisher knows whether its removal must
	// wait.
	settling bool
}

func wishes(request Request, snapshot *catalog.Snapshot) []wish {
	if request.Deleting {
		return nil
	}
	kyma := labels.Set(request.Labels)
	var all []wish
	for _, choice := range snapshot.Mandatory() {
		all = append(all, wish{
			module: v1beta2.Module{Name: choice.Module, Managed: true,
				CustomResourcePolicy: v1beta2.PolicyCreateAndDelete}, choice: choice, err: choice.Err,
		})
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

// limited returns the part of the request that a runtime may decide. Agents with autonomy apply the same rule.
func (r Request) limited(snapshot *catalog.Snapshot) bundle.OwnRequest {
	mandatory := map[string]bool{}
	for _, choice := range snapshot.Mandatory() {
		mandatory[choice.Module] = true
	}
	return bundle.LimitRequest(r.Asked.Modules, func(module string) bool { return mandatory[module] })
}

// keep finds the module's version in the runtime, which stays if the choice is older.
func (w *wish) keep(request Request, snapshot *catalog.Snapshot) {
	last := lastManifest(request.Last, w.module.Name)
	w.floor, w.running = floor(last, request.Versions[w.module.Name]), request.Running[w.module.Name]
	if i := w.inherited; i != nil &&
		(w.floor == "" || bundle.Older(w.floor, i.Version) || phase.Returned(request.Takeover, request.Last) &&
			!w.choice.Mandatory) {
		w.floor = i.Version
	}
	// A channel that moves to a version which the Kyma may not have removes nothing: the Kyma keeps its version.
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

// Needs returns the component versions whose contents Resolve needs.
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

// Resolve returns the desired state. A module that cannot be resolved keeps its last manifest and adds a problem with a
// reason. It does not affect other modules.
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
		result.Catalog = bundle.Catalog{
			ModuleTemplates: []bundle.CatalogEntry{}, ModuleReleaseMetas: []bundle.CatalogEntry{},
		}
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

// add resolves one requested module.
func (r *Result) add(w wish, request Request, contents map[Ref]Content) {
	shall := !w.revoked || !w.module.Managed
	if shall {
		r.Asked = append(r.Asked, w.module.Name)
	}
	manifest, problem := decide(w, request.ControlPlane, lastManifest(request.Last, w.module.Name), contents)
	if missing := request.lacking(manifest); len(missing) > 0 {
		r.leaveOut(missing)
		manifest, problem = request.readable(lastManifest(request.Last, w.module.Name)),
			outdated(w.module.Name, missing)
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
		r.Remarks = append(r.Remarks, bundle.Problem{
			Module: w.module.Name, Channel: channel, State: v1beta2.StateReady, Message: held,
		})
	}
	if w.gate.Held == "" || manifest == nil {
		return
	}
	list := &r.Held
	if w.gate.Undo != "" {
		list = &r.Remarks
	}
	*list = append(*list, bundle.Problem{
		Module: w.module.Name, Channel: channel, State: v1beta2.StateReady, Message: w.gate.Held,
	})
}

// offers returns all choices of a runtime with autonomy.
func offers(request Request, snapshot *catalog.Snapshot) []wish {
	if request.Settings.Autonomy != bundle.AutonomyCatalog || request.Deleting {
		return nil
	}
	choices := snapshot.Offers(request.Labels)
	var all []wish
	for _, module := range slices.Sorted(maps.Keys(choices)) {
		for _, channel := range choices[module] {
			w := wish{
				module: v1beta2.Module{
					Name: module, Channel: channel, Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete,
				},
			}
			w.lookup(request, snapshot, channel)
			if w.err == nil && !request.ControlPlane && w.forControlPlane() {
				continue
			}
			all = append(all, w)
		}
	}
	return all
}

// leaving returns the modules that are being removed, in their current versions: their operators may need a newer
// version for the removal.
func leaving(request Request, snapshot *catalog.Snapshot) []wish {
	var all []wish
	for _, module := range request.Leaving {
		if request.Gates[rollout.Track{Module: module.Name, Channel: module.Channel}].Held != "" {
			continue // it is removed in its current version
		}
		w := wish{module: module}
		w.choice, w.err = snapshot.Lookup(module.Name, module.Channel, labels.Set(request.Labels))
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b wish) int { return cmp.Compare(a.module.Name, b.module.Name) })
	return all
}

// floor returns the newer of the last published version of a module and the remembered one.
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

// carried are the labels of a Kyma that its runtime's Kyma always gets. None identifies the runtime, so equal runtimes
// share documents.
var carried = []string{v1beta2.LabelBeta, v1beta2.LabelInternal, v1beta2.LabelPurpose}

func seed(request Request) bundle.KymaSeed {
	s := bundle.KymaSeed{Spec: *request.Seed.DeepCopy(), Labels: map[string]string{
		v1beta2.LabelManagedBy: v1beta2.ManagedByKyma, v1beta2.LabelWatchedBy: v1beta2.ManagedByKyma,
	}}
	if request.NoModuleCopy {
		s.Spec.Modules = nil
	}
	// The order has no meaning, because the API stores them as a map.
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

// Removals returns the modules to remove: the installed modules that are not requested. installed are the published and
// the reported modules, confirmed the modules that are reported to be gone.
func Removals(installed, asked []string, confirmed map[string]bool) []string {
	gone := map[string]bool{}
	for _, module := range installed {
		if !slices.Contains(asked, module) && !confirmed[module] {
			gone[module] = true
		}
	}
	return slices.Sorted(maps.Keys(gone))
}
