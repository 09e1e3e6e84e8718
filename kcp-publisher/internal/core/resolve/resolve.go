// Package resolve decides the desired state of one runtime from the request of its Kyma, the catalog, and the contents
// of components. It is pure: equal inputs in any order give equal bytes.
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
	// Carried are the additional labels to copy to the runtime's Kyma.
	Carried map[string]string
	// Seed is the spec from which an agent creates a missing Kyma.
	Seed v1beta2.KymaSpec
	// Asked is the spec to resolve: the reported spec of the Kyma in the runtime, or otherwise Seed.
	Asked v1beta2.KymaSpec
	// Settings are the settings of the agent.
	Settings bundle.Settings
	// Watchers are the Watchers of the control plane, sorted by name.
	Watchers []bundle.Watcher
	// Maintenance is the schedule for upgrades that require downtime. Nil allows them at any time.
	Maintenance *window.Schedule
	// Leaving are the installed modules that are not requested anymore, by name and channel.
	Leaving []v1beta2.Module
	// NoCatalog omits the catalog from the bundle. NoModuleCopy makes the agent create the Kyma without the modules in
	// Seed.
	NoCatalog, NoModuleCopy bool
	// ControlPlane is true if the runtime is the control plane's own cluster.
	ControlPlane bool
	// Deleting is true for a deleted Kyma.
	Deleting bool
	// Gates contains the rollouts' decisions for the runtime, by track.
	Gates map[rollout.Track]rollout.Decision
	// Shown contains the version in the runtime's catalog for each channel whose new version a rollout delays, by
	// track.
	Shown map[rollout.Track]string
	// Checks are the checks that rollouts add, by track.
	Checks map[rollout.Track]rollout.Checks
	// Last is the last published desired state, or nil. Unresolved modules keep their manifests from Last.
	Last *bundle.DesiredState
	// Versions are the published or reported versions by module. Only a rollback can install an older version.
	Versions map[string]string
	// Running maps each module whose published version failed to the version that still runs. Returning to that version
	// needs no rollback.
	Running map[string]string
	// Takeover is the phase of the runtime's takeover from lifecycle-manager, or empty.
	Takeover bundle.TakeoverPhase
	// RequestUnknown is true if the request of a runtime in a takeover is unknown. The runtime then keeps its modules.
	RequestUnknown bool
	// Inherited are the modules that lifecycle-manager installed and that the agent has not adopted yet, sorted by
	// name.
	Inherited []phase.Inherited
	// Unsupported are the features that the agent does not support, sorted.
	Unsupported []bundle.Feature
	// Values are the values in the Kyma's annotation, or nil. DefinedValues are the names of the values that a module
	// in the catalog uses, sorted.
	Values        bundle.Values `json:"-"`
	DefinedValues []string
	// Staying are the modules whose removal requires an operator's approval, sorted.
	Staying []string
	// Settling is true until the publisher has decided about the removals of the modules in Staying.
	Settling bool
}

// KeepsAll reports whether the runtime keeps all modules regardless of its request.
func (r Request) KeepsAll() bool { return r.Takeover == bundle.TakeoverRelease || r.RequestUnknown }

// shown returns a function that looks up the version in Shown, or nil.
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
	// Asked are the names of all requested modules, sorted. All other modules are removed.
	Asked []string
	// Versions are the versions of the manifests and of requested modules without a manifest.
	Versions map[string]string
	// Held are messages about modules whose new version a rollout delays. They are not part of State.
	Held []bundle.Problem
	// Remarks are messages about modules in their desired version, such as rolled-back modules.
	Remarks []bundle.Problem
	// Unsupported are the required features that the agent does not support, sorted.
	Unsupported []bundle.Feature
	// tried are the manifests of versions that are only resolved to find out whether the runtime can have them.
	tried []bundle.Manifest
}

var crds = []string{
	"kymas." + v1beta2.Group, "manifests." + v1beta2.Group, "modulereleasemetas." + v1beta2.Group,
	"moduletemplates." + v1beta2.Group,
}

// requested is a requested module with its version in the catalog.
type requested struct {
	module v1beta2.Module
	choice catalog.Choice
	err    error
	gate   rollout.Decision
	// version is the channel's version, or the version that a rollout allows. It is empty for other modules.
	version string
	// tried is the module in the version gate.Try, or nil if no version is tried.
	tried *requested
	// floor is the lowest version that needs no rollback. Empty means no limit.
	floor string
	// kept is the catalog's choice for the version in floor, if the last bundle does not contain it.
	kept *catalog.Choice
	// revoked is true if the catalog hides the module and its last version from the Kyma.
	revoked bool
	// running is the version that still runs because the published version failed, or empty.
	running string
	// inherited is the module as lifecycle-manager installed it, or nil. offered is its version after the adoption.
	inherited *phase.Inherited
	offered   string
	// settling is true until the publisher has decided about the module's removal.
	settling bool
}

func requestedModules(request Request, snapshot *catalog.Snapshot) []requested {
	if request.Deleting {
		return nil
	}
	kyma := labels.Set(request.Labels)
	var all []requested
	for _, choice := range snapshot.Mandatory() {
		all = append(all, requested{
			module: v1beta2.Module{Name: choice.Module, Managed: true,
				CustomResourcePolicy: v1beta2.PolicyCreateAndDelete}, choice: choice, err: choice.Err,
		})
	}
	for _, module := range request.limited(snapshot).Modules {
		snapshot := snapshot.ProvidedBy(module.ControllerName)
		w := requested{module: module}
		if version := module.Pin(); version != "" {
			w.choice, w.err = snapshot.Pinned(module.Name, version, kyma)
		} else {
			w.lookup(request, snapshot, cmp.Or(module.Channel, request.Asked.Channel))
		}
		all = append(all, w)
	}
	all = addHeldRemovals(inherit(all, request, snapshot), request)
	for i := range all {
		all[i].keep(request, snapshot.ProvidedBy(all[i].module.ControllerName))
	}
	slices.SortFunc(all, func(a, b requested) int { return cmp.Compare(a.module.Name, b.module.Name) })
	return all
}

// limited removes the modules that a runtime must not request, such as mandatory modules.
func (r Request) limited(snapshot *catalog.Snapshot) bundle.OwnRequest {
	mandatory := map[string]bool{}
	for _, choice := range snapshot.Mandatory() {
		mandatory[choice.Module] = true
	}
	return bundle.LimitRequest(r.Asked.Modules, func(module string) bool { return mandatory[module] })
}

// keep sets the fields that depend on the module's current version in the runtime.
func (w *requested) keep(request Request, snapshot *catalog.Snapshot) {
	if w.tried != nil {
		w.tried.keep(request, snapshot)
	}
	last := lastManifest(request.Last, w.module.Name)
	w.floor, w.running = floor(last, request.Versions[w.module.Name]), request.Running[w.module.Name]
	if i := w.inherited; i != nil &&
		(w.floor == "" || bundle.Older(w.floor, i.Version) || phase.Returned(request.Takeover, request.Last) &&
			!w.choice.Mandatory) {
		w.floor = i.Version
	}
	// If a channel changes to a hidden version, the module stays at its last version, unless that version is hidden
	// too.
	if w.revoked = catalog.Hidden(w.err); w.revoked && last != nil {
		_, err := snapshot.At(w.module.Name, last.Channel, last.Version, request.Labels)
		w.revoked = catalog.Hidden(err)
	}
	if w.err != nil || !w.downgrades() || last != nil && last.Version == w.floor {
		return
	}
	kept, err := snapshot.At(w.module.Name, w.choice.Channel, w.floor, request.Labels)
	if w.choice.Mandatory {
		kept, err = snapshot.Installed(w.module.Name, "", w.floor) // At does not return mandatory modules
	}
	if err == nil {
		w.kept = &kept
	}
}

// Needs returns the component versions whose contents Resolve needs.
func Needs(request Request, snapshot *catalog.Snapshot) []Need {
	var needs []Need
	for _, w := range slices.Concat(requestedModules(request, snapshot), leaving(request, snapshot),
		offers(request, snapshot)) {
		if w.err == nil {
			needs = append(needs, need(w.choice))
		}
		if w.kept != nil {
			needs = append(needs, need(*w.kept))
		}
		if w.tried != nil && w.tried.err == nil {
			needs = append(needs, need(w.tried.choice))
		}
	}
	return needs
}

func need(choice catalog.Choice) Need {
	return Need{Ref: refOf(choice), Descriptor: choice.Descriptor, NamesItself: choice.NamesItself}
}

// Resolve returns the desired state. A module that cannot be resolved keeps its last manifest and adds a problem.
func Resolve(request Request, snapshot *catalog.Snapshot, contents map[Ref]Content) Result {
	result := Result{
		State: bundle.DesiredState{
			Kyma:        kymaSeed(request),
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
	case request.RequestUnknown:
		return result.keepLastModules(request)
	}
	if request.Deleting {
		result.State.Watchers, result.State.Maintenance = nil, nil
	}
	if request.Deleting || request.NoCatalog {
		result.Catalog = bundle.Catalog{
			ModuleTemplates: []bundle.CatalogEntry{}, ModuleReleaseMetas: []bundle.CatalogEntry{},
		}
	}
	wanted := requestedModules(request, snapshot)
	if !request.Deleting {
		result.State.Problems = append(result.State.Problems, request.limited(snapshot).Ignored...)
	}
	for _, w := range wanted {
		result.add(w, request, contents)
	}
	for _, w := range offers(request, snapshot) {
		content, known := contents[refOf(w.choice)]
		manifest, err := newManifest(w, content)
		if known && err == nil && len(request.unsupportedFeatures(manifest)) == 0 &&
			len(request.undefinedValues(manifest)) == 0 {
			result.State.Offers = append(result.State.Offers, *manifest)
		}
	}
	for _, w := range leaving(request, snapshot) {
		if slices.Contains(result.Asked, w.module.Name) || w.err != nil {
			continue
		}
		content, known := contents[refOf(w.choice)]
		manifest, err := newManifest(w, content)
		if known && err == nil && len(request.unsupportedFeatures(manifest)) == 0 {
			result.State.Leaving = append(result.State.Leaving, *manifest)
		}
	}
	result.fit(request)
	return result
}

func (r *Result) add(w requested, request Request, contents map[Ref]Content) {
	shall := !w.revoked || !w.module.Managed
	if shall {
		r.Asked = append(r.Asked, w.module.Name)
	}
	manifest, problem := r.usable(w, request, contents)
	if w.tried != nil {
		switch tried, cause := r.usable(*w.tried, request, contents); {
		case cause != nil:
			problem = cause
		case tried != nil:
			r.tried = append(r.tried, *tried)
		}
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
	if held := w.adoptionRemark(); held != "" && problem == nil {
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

// usable returns a manifest of a module that the runtime can use, and a problem if it does not match the request.
func (r *Result) usable(
	w requested, request Request, contents map[Ref]Content,
) (*bundle.Manifest, *bundle.Problem) {
	last := lastManifest(request.Last, w.module.Name)
	manifest, problem := decide(w, request.ControlPlane, last, contents)
	if missing := request.unsupportedFeatures(manifest); len(missing) > 0 {
		r.recordOmitted(missing)
		manifest, problem = request.supportedManifest(last), outdated(w.module.Name, missing)
	} else if err := bundle.UndefinedValues(w.module.Name, request.undefinedValues(manifest)); err != nil {
		manifest, problem = request.supportedManifest(last), failure(reason.Of(err), "%v", err)
	}
	if problem != nil {
		problem.Version = w.version
	}
	return manifest, problem
}

// offers returns all modules, in each of their channels, from which a runtime with autonomy can choose.
func offers(request Request, snapshot *catalog.Snapshot) []requested {
	if request.Settings.Autonomy != bundle.AutonomyCatalog || request.Deleting {
		return nil
	}
	choices := snapshot.Offers(request.Labels)
	var all []requested
	for _, module := range slices.Sorted(maps.Keys(choices)) {
		for _, channel := range choices[module] {
			w := requested{
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

// leaving returns the modules to remove at their channels' current versions, because a module's operator may need a
// newer version for the removal.
func leaving(request Request, snapshot *catalog.Snapshot) []requested {
	var all []requested
	for _, module := range request.Leaving {
		if request.Gates[rollout.Track{Module: module.Name, Channel: module.Channel}].Held != "" {
			continue // a rollout delays the channel's version, so the module is removed at its installed version
		}
		w := requested{module: module}
		w.choice, w.err = snapshot.Lookup(module.Name, module.Channel, labels.Set(request.Labels))
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b requested) int { return cmp.Compare(a.module.Name, b.module.Name) })
	return all
}

// floor returns the newer version of a module in the last bundle and in the Kyma's status.
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

// carried are the labels that are always copied to the runtime's Kyma.
var carried = []string{v1beta2.LabelBeta, v1beta2.LabelInternal, v1beta2.LabelPurpose}

func kymaSeed(request Request) bundle.KymaSeed {
	s := bundle.KymaSeed{Spec: *request.Seed.DeepCopy(), Labels: map[string]string{
		v1beta2.LabelManagedBy: v1beta2.ManagedByKyma, v1beta2.LabelWatchedBy: v1beta2.ManagedByKyma,
	}}
	if request.NoModuleCopy {
		s.Spec.Modules = nil
	}
	// The order of modules has no meaning in the API.
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

// Removals returns the installed modules that are neither requested nor confirmed as removed.
func Removals(installed, asked []string, confirmed map[string]bool) []string {
	gone := map[string]bool{}
	for _, module := range installed {
		if !slices.Contains(asked, module) && !confirmed[module] {
			gone[module] = true
		}
	}
	return slices.Sorted(maps.Keys(gone))
}
