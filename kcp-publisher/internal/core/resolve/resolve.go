// Package resolve computes the desired state of one runtime from the request of its Kyma, the catalog, and the contents
// of components. It performs no I/O. The order of the inputs does not affect the encoded result.
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

// Request contains the module request and the settings of one runtime.
type Request struct {
	// Labels contains the labels of the Kyma in the control plane.
	Labels map[string]string
	// Carried contains the additional labels that are copied to the Kyma in the runtime.
	Carried map[string]string
	// Seed is the spec that the agent uses to create the Kyma in the runtime if it does not exist.
	Seed v1beta2.KymaSpec
	// Asked is the spec with the requested modules. It is the spec that the runtime reports for its own Kyma or,
	// without such a report, Seed.
	Asked v1beta2.KymaSpec
	// Settings contains the settings of the runtime's agent.
	Settings bundle.Settings
	// Watchers contains the Watchers of the control plane, sorted by name.
	Watchers []bundle.Watcher
	// Maintenance is the schedule of maintenance windows for upgrades that cause downtime. If it is nil, upgrades are
	// allowed at any time.
	Maintenance *window.Schedule
	// Leaving lists the installed modules that the Kyma does not request, with their channels.
	Leaving []v1beta2.Module
	// If NoCatalog is true, the bundle omits the catalog. If NoModuleCopy is true, the agent creates the Kyma in the
	// runtime without the modules in Seed.
	NoCatalog, NoModuleCopy bool
	// ControlPlane is true if the runtime is the control plane's own cluster.
	ControlPlane bool
	// Deleting is true for a deleted Kyma.
	Deleting bool
	// Gates maps each track (a module in a channel) to the decision of its rollout for the runtime.
	Gates map[rollout.Track]rollout.Decision
	// Shown contains the tracks whose new version a rollout delays. It maps each track to the version in the runtime's
	// catalog.
	Shown map[rollout.Track]string
	// Checks maps each track to the checks that its rollout adds.
	Checks map[rollout.Track]rollout.Checks
	// Last is the desired state in the last published bundle, or nil. A module that cannot be resolved keeps its
	// manifest from Last.
	Last *bundle.DesiredState
	// Versions maps each module to its published or reported version. Only a rollback can install an older version.
	Versions map[string]string
	// Running maps each module whose published version failed to the version that still runs. The module can return to
	// that version without a rollback.
	Running map[string]string
	// Takeover is the phase of the runtime's takeover from lifecycle-manager, or empty.
	Takeover bundle.TakeoverPhase
	// RequestUnknown is true if the runtime is in a takeover and has not reported its module request yet. It then keeps
	// all its modules.
	RequestUnknown bool
	// Inherited contains the modules that lifecycle-manager installed and that the agent has not adopted yet, sorted by
	// name.
	Inherited []phase.Inherited
	// Unsupported lists the features that the agent does not support, sorted.
	Unsupported []bundle.Feature
	// Values contains the runtime values in the Kyma's annotation, or nil. DefinedValues lists the names of those
	// values that a module in the catalog uses, sorted.
	Values        bundle.Values `json:"-"`
	DefinedValues []string
	// Staying lists the modules whose removal requires an operator's approval, sorted. The runtime keeps them for now.
	Staying []string
	// Settling is true while the publisher has not yet decided about the removals of the modules in Staying.
	Settling bool
}

// KeepsAll reports whether the runtime keeps all modules regardless of its request.
func (r Request) KeepsAll() bool { return r.Takeover == bundle.TakeoverRelease || r.RequestUnknown }

// shown returns a function that returns the version of a channel in Shown, or "". It returns nil if Shown is empty.
func (r Request) shown() func(module, channel string) string {
	if len(r.Shown) == 0 {
		return nil
	}
	return func(module, channel string) string { return r.Shown[rollout.Track{Module: module, Channel: channel}] }
}

// Result contains the desired state of a runtime and the messages about its modules.
type Result struct {
	State   bundle.DesiredState
	Catalog bundle.Catalog
	// Asked lists the names of all requested modules, sorted. The bundle removes all other modules.
	Asked []string
	// Versions maps each module to the version in its manifest. For a requested module without a manifest, it is the
	// last version.
	Versions map[string]string
	// Held contains messages about modules whose new version a rollout delays. They are not part of State, so agents do
	// not see them.
	Held []bundle.Problem
	// Remarks contains messages about modules that have their desired version, for example because of a rollback.
	Remarks []bundle.Problem
	// Unsupported lists features that a module requires but the agent does not support, sorted.
	Unsupported []bundle.Feature
	// tried contains the manifests of versions that are not published yet. They are only used to check whether the
	// versions can be resolved and fit into the bundle.
	tried []bundle.Manifest
}

var crds = []string{
	"kymas." + v1beta2.Group, "manifests." + v1beta2.Group, "modulereleasemetas." + v1beta2.Group,
	"moduletemplates." + v1beta2.Group,
}

// requested is a module of the request, with its ModuleTemplate in the catalog.
type requested struct {
	module v1beta2.Module
	choice catalog.Choice
	err    error
	gate   rollout.Decision
	// version is the version that the channel offers or that a rollout allows. It is empty for a module that does not
	// follow a channel.
	version string
	// tried is the same module in the version gate.Try, or nil if gate.Try is empty.
	tried *requested
	// floor is the lowest version that the module can have without a rollback. If it is empty, every version is
	// allowed.
	floor string
	// kept is the ModuleTemplate of the version in floor. It is only set if the module must stay at that version and
	// the last bundle does not contain it.
	kept *catalog.Choice
	// revoked is true if the catalog hides both the module and its last version from the Kyma.
	revoked bool
	// running is the version that still runs because the published version failed, or empty.
	running string
	// inherited is the module as lifecycle-manager installed it, or nil. offered is the version that the module gets
	// after the agent has adopted it.
	inherited *phase.Inherited
	offered   string
	// settling is true while the publisher has not yet decided about the removal of the module.
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

// limited returns the requested modules without those that a runtime must not request, such as mandatory modules.
func (r Request) limited(snapshot *catalog.Snapshot) bundle.OwnRequest {
	mandatory := map[string]bool{}
	for _, choice := range snapshot.Mandatory() {
		mandatory[choice.Module] = true
	}
	return bundle.LimitRequest(r.Asked.Modules, func(module string) bool { return mandatory[module] })
}

// keep sets the fields that depend on the version that the runtime currently has.
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
	// If the catalog hides the channel's new version from the Kyma, the module stays at its last version. The module is
	// only removed if the last version is hidden, too.
	if w.revoked = catalog.Hidden(w.err); w.revoked && last != nil {
		_, err := snapshot.At(w.module.Name, last.Channel, last.Version, request.Labels)
		w.revoked = catalog.Hidden(err)
	}
	if w.err != nil || !w.downgrades() || last != nil && last.Version == w.floor {
		return
	}
	kept, err := snapshot.At(w.module.Name, w.choice.Channel, w.floor, request.Labels)
	if w.choice.Mandatory {
		// The method At does not find mandatory modules.
		kept, err = snapshot.Installed(w.module.Name, "", w.floor)
	}
	if err == nil {
		w.kept = &kept
	}
}

// Needs returns the component versions that must be read before Resolve can be called with this request.
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

// Resolve returns the desired state of a runtime. If a module cannot be resolved, it keeps its manifest from the last
// bundle, and the result contains a Problem.
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

// usable returns a manifest of a module that the runtime's agent supports. If the manifest does not match the request,
// it also returns the problem.
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

// offers returns the modules that a runtime can choose by itself. It returns one entry for each channel of a module. It
// returns nil if the runtime has no autonomy.
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

// leaving returns the modules to remove, in the versions that their channels now offer. The newer version of a module's
// operator may be necessary to remove the module.
func leaving(request Request, snapshot *catalog.Snapshot) []requested {
	var all []requested
	for _, module := range request.Leaving {
		if request.Gates[rollout.Track{Module: module.Name, Channel: module.Channel}].Held != "" {
			// A rollout delays the channel's version, so the module's installed version must be used for the removal.
			continue
		}
		w := requested{module: module}
		w.choice, w.err = snapshot.Lookup(module.Name, module.Channel, labels.Set(request.Labels))
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b requested) int { return cmp.Compare(a.module.Name, b.module.Name) })
	return all
}

// floor compares the version of a module in the last bundle with the version in the Kyma's status, and returns the
// newer one.
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

// carried lists the labels that are always copied from the control plane's Kyma to the Kyma in the runtime.
var carried = []string{v1beta2.LabelBeta, v1beta2.LabelInternal, v1beta2.LabelPurpose}

func kymaSeed(request Request) bundle.KymaSeed {
	s := bundle.KymaSeed{Spec: *request.Seed.DeepCopy(), Labels: map[string]string{
		v1beta2.LabelManagedBy: v1beta2.ManagedByKyma, v1beta2.LabelWatchedBy: v1beta2.ManagedByKyma,
	}}
	if request.NoModuleCopy {
		s.Spec.Modules = nil
	}
	// Sort the modules, because their order has no meaning in the API.
	slices.SortFunc(s.Spec.Modules, func(a, b v1beta2.Module) int { return cmp.Compare(a.Name, b.Name) })
	maps.Copy(s.Labels, request.Carried)
	for _, label := range carried {
		if value, ok := request.Labels[label]; ok {
			s.Labels[label] = value
		}
	}
	return s
}

// Versions maps each module in a desired state to the version in its manifest.
func Versions(state bundle.DesiredState) map[string]string {
	versions := make(map[string]string, len(state.Manifests))
	for _, m := range state.Manifests {
		versions[m.Module] = m.Version
	}
	return versions
}

// Removals returns the installed modules that are not requested. It omits a module if the runtime has confirmed its
// removal.
func Removals(installed, asked []string, confirmed map[string]bool) []string {
	gone := map[string]bool{}
	for _, module := range installed {
		if !slices.Contains(asked, module) && !confirmed[module] {
			gone[module] = true
		}
	}
	return slices.Sorted(maps.Keys(gone))
}
