// Package resolve computes the desired state of one runtime from its Kyma's request, the catalog, and the components'
// content. It does not perform I/O. The order of the inputs does not affect the encoded result.
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
	// CopiedLabels contains additional labels that an operator configured. Like copiedLabels, they are copied from the
	// control plane's Kyma to the runtime's Kyma.
	CopiedLabels map[string]string
	// Seed is the spec that the agent uses to create the Kyma in the runtime if it does not exist.
	Seed v1beta2.KymaSpec
	// Requested is the spec with the requested modules. It is the spec that the runtime reports for its own Kyma or,
	// without such a report, Seed.
	Requested v1beta2.KymaSpec
	// Settings contains the settings of the runtime's agent.
	Settings bundle.Settings
	// Watchers contains the control plane's Watchers, sorted by name.
	Watchers []bundle.Watcher
	// Maintenance is the schedule of maintenance windows for upgrades that cause downtime. If it is nil, upgrades are
	// allowed at any time.
	Maintenance *window.Schedule
	// RemovedModules lists the installed modules that the Kyma does not request, with their channels.
	RemovedModules []v1beta2.Module
	// RemovedVersions maps each module in RemovedModules to its installed version.
	RemovedVersions map[string]string
	// If OmitsCatalog is true, the bundle omits the catalog. If OmitsSeedModules is true, the agent creates the Kyma in
	// the runtime without the modules in Seed.
	OmitsCatalog, OmitsSeedModules bool
	// IsControlPlane is true if the runtime is the control plane's own cluster.
	IsControlPlane bool
	// IsDeleting is true for a deleted Kyma.
	IsDeleting bool
	// Gates maps each track (a module in a channel) to the decision of its rollout for the runtime.
	Gates map[rollout.Track]rollout.Decision
	// CatalogVersions contains the tracks with a new version that a rollout delays. The value is the channel's version
	// in the runtime's catalog.
	CatalogVersions map[rollout.Track]string
	// Checks maps each track to the checks that its rollout adds.
	Checks map[rollout.Track]rollout.WaveChecks
	// LastState is the desired state in the last published bundle, or nil. A module that cannot be resolved keeps its
	// manifest from LastState.
	LastState *bundle.DesiredState
	// Versions maps each module to its published or reported version. Only a rollback can install an older version.
	Versions map[string]string
	// If a module's published version failed and an older version still runs, RunningVersions maps the module to the
	// older version. The module can return to this version without a rollback.
	RunningVersions map[string]string
	// Takeover is the phase of the runtime's takeover from lifecycle-manager, or empty.
	Takeover bundle.TakeoverPhase
	// RequestUnknown is true if the runtime is in a takeover and has not reported its module request yet. Until then,
	// it keeps all its modules.
	RequestUnknown bool
	// Inherited contains the modules that lifecycle-manager installed and that the agent has not adopted yet, sorted by
	// name.
	Inherited []phase.Inherited
	// Unsupported lists the features that the agent does not support, sorted.
	Unsupported []bundle.Feature
	// Values contains the runtime values in the Kyma's annotation, or nil. DefinedValues lists the references from
	// ModuleTemplates to runtime values with the right type. InvalidValues lists the references to values with a
	// different type. Both lists are sorted.
	Values                       bundle.Values `json:"-"`
	DefinedValues, InvalidValues []bundle.ValueRef
	// HeldRemovals lists the modules that the bundle keeps because their removal waits for an operator's approval,
	// sorted.
	HeldRemovals []string
	// RemovalGates maps modules to the decisions of rollouts about their removal: either the removal waits, or the
	// rollout restores the module. WaitingRemovals contains the modules whose removal waits for a rollout, with the
	// reason for the wait. The bundle keeps these modules.
	RemovalGates    map[string]rollout.Decision
	WaitingRemovals map[string]string
	// IsSettling is true while the publisher has not yet decided about the removals of the modules in HeldRemovals.
	IsSettling bool
}

// KeepsAllModules reports whether the runtime keeps all modules regardless of its request.
func (r Request) KeepsAllModules() bool {
	return r.Takeover == bundle.TakeoverRelease || r.RequestUnknown
}

// catalogVersionOf returns a function that returns the version of a channel in CatalogVersions, or "". If
// CatalogVersions is empty, catalogVersionOf returns nil.
func (r Request) catalogVersionOf() func(module, channel string) string {
	if len(r.CatalogVersions) == 0 {
		return nil
	}
	return func(module, channel string) string {
		return r.CatalogVersions[rollout.Track{Module: module, Channel: channel}]
	}
}

// Result contains the desired state of a runtime and the messages about its modules.
type Result struct {
	State   bundle.DesiredState
	Catalog bundle.Catalog
	// RequestedNames lists the names of all requested modules, sorted. The bundle removes all other modules.
	RequestedNames []string
	// Versions maps each module to the version in its manifest. For a requested module without a manifest, it is the
	// last version.
	Versions map[string]string
	// HeldProblems contains messages about modules with a new version that a rollout delays. They are not part of
	// State, so agents do not receive them.
	HeldProblems []bundle.Problem
	// Remarks contains messages about modules without a problem, for example that a rollback installed their version.
	Remarks []bundle.Problem
	// Unsupported lists features that a module requires but the agent does not support, sorted.
	Unsupported []bundle.Feature
	// triedManifests contains manifests of promoted versions that a rollout does not install yet because an earlier
	// attempt to resolve them failed. They are not published. Resolve only checks whether the versions can be resolved
	// now and would fit into the bundle.
	triedManifests []bundle.Manifest
}

var crds = []string{
	"kymas." + v1beta2.Group, "manifests." + v1beta2.Group, "modulereleasemetas." + v1beta2.Group,
	"moduletemplates." + v1beta2.Group,
}

// requestedModule is a module of the request, with its ModuleTemplate in the catalog.
type requestedModule struct {
	module v1beta2.Module
	choice catalog.Choice
	err    error
	gate   rollout.Decision
	// version is the version that the channel offers or that a rollout allows. It is empty for a module that does not
	// follow a channel.
	version string
	// triedModule is the same module with version gate.TriedVersion. It is nil if gate.TriedVersion is empty.
	triedModule *requestedModule
	// minVersion is the lowest version that the module can have without a rollback. If it is empty, any version is
	// allowed.
	minVersion string
	// keptChoice is the ModuleTemplate of minVersion. It is set only if the module must stay at minVersion and the last
	// bundle does not contain the module in this version.
	keptChoice *catalog.Choice
	// isRevoked is true if the catalog hides both the module and its last version from the Kyma.
	isRevoked bool
	// runningVersion is the version that still runs because the published version failed, or empty.
	runningVersion string
	// inherited is the module as lifecycle-manager installed it, or nil. offeredVersion is the version that the module
	// gets after the agent has adopted it.
	inherited      *phase.Inherited
	offeredVersion string
	// isSettling is true while the publisher has not yet decided about the removal of the module.
	isSettling bool
}

func requestedModules(request Request, snapshot *catalog.Snapshot) []requestedModule {
	if request.IsDeleting {
		return nil
	}
	kyma := labels.Set(request.Labels)
	var all []requestedModule
	for _, choice := range snapshot.MandatoryModules() {
		all = append(all, requestedModule{
			module: v1beta2.Module{Name: choice.Module, Managed: true,
				CustomResourcePolicy: v1beta2.PolicyCreateAndDelete}, choice: choice, err: choice.Err,
		})
	}
	for _, module := range request.ownRequest(snapshot).Modules {
		snapshot := snapshot.ProvidedBy(module.ControllerName)
		w := requestedModule{module: module}
		if version := module.Pin(); version != "" {
			w.choice, w.err = snapshot.LookupPinned(module.Name, version, kyma)
		} else {
			w.lookupChoice(request, snapshot, cmp.Or(module.Channel, request.Requested.Channel))
		}
		all = append(all, w)
	}
	all = addRestored(addInherited(all, request, snapshot), request, snapshot)
	all = addHeldRemovals(all, request)
	for i := range all {
		all[i].setCurrent(request, snapshot.ProvidedBy(all[i].module.ControllerName))
	}
	slices.SortFunc(all, func(a, b requestedModule) int { return cmp.Compare(a.module.Name, b.module.Name) })
	return all
}

// ownRequest returns the requested modules without those that a runtime must not request, such as mandatory modules.
func (r Request) ownRequest(snapshot *catalog.Snapshot) bundle.OwnRequest {
	mandatory := map[string]bool{}
	for _, choice := range snapshot.MandatoryModules() {
		mandatory[choice.Module] = true
	}
	return bundle.LimitRequest(r.Requested.Modules, func(module string) bool { return mandatory[module] })
}

// setCurrent sets the fields that depend on the version that the runtime currently has.
func (w *requestedModule) setCurrent(request Request, snapshot *catalog.Snapshot) {
	if w.triedModule != nil {
		w.triedModule.setCurrent(request, snapshot)
	}
	last := lastManifest(request.LastState, w.module.Name)
	w.minVersion, w.runningVersion = newerVersion(last, request.Versions[w.module.Name]),
		request.RunningVersions[w.module.Name]
	if i := w.inherited; i != nil &&
		(w.minVersion == "" || bundle.IsOlder(w.minVersion, i.Version) ||
			phase.WasReturned(request.Takeover, request.LastState) &&
				!w.choice.Mandatory) {
		w.minVersion = i.Version
	}
	// If the catalog hides the channel's new version from the Kyma, the module stays at its last version. It is removed
	// only if the last version is hidden, too.
	if w.isRevoked = catalog.IsHidden(w.err); w.isRevoked && last != nil {
		_, err := snapshot.LookupVersion(w.module.Name, last.Channel, last.Version, request.Labels)
		w.isRevoked = catalog.IsHidden(err)
	}
	if w.err != nil || !w.isDowngrade() || last != nil && last.Version == w.minVersion {
		return
	}
	kept, err := snapshot.LookupVersion(w.module.Name, w.choice.Channel, w.minVersion, request.Labels)
	if w.choice.Mandatory {
		// LookupVersion does not find mandatory modules.
		kept, err = snapshot.LookupInstalled(w.module.Name, "", w.minVersion)
	}
	if err == nil {
		w.keptChoice = &kept
	}
}

// ListNeeds returns the component versions that must be read before Resolve can be called with this request.
func ListNeeds(request Request, snapshot *catalog.Snapshot) []ComponentNeed {
	var needs []ComponentNeed
	for _, w := range slices.Concat(requestedModules(request, snapshot), removedModules(request, snapshot),
		offeredModules(request, snapshot)) {
		if w.err == nil {
			needs = append(needs, componentNeed(w.choice))
		}
		if w.keptChoice != nil {
			needs = append(needs, componentNeed(*w.keptChoice))
		}
		if w.triedModule != nil && w.triedModule.err == nil {
			needs = append(needs, componentNeed(w.triedModule.choice))
		}
	}
	return needs
}

func componentNeed(choice catalog.Choice) ComponentNeed {
	return ComponentNeed{ComponentRef: componentRef(choice), Descriptor: choice.Descriptor,
		IsSelfNamed: choice.IsSelfNamed}
}

// Resolve returns the desired state of a runtime. If a module cannot be resolved, it keeps its manifest from the last
// bundle, and the result contains a Problem.
func Resolve(request Request, snapshot *catalog.Snapshot, contents map[ComponentRef]Content) Result {
	result := Result{
		State: bundle.DesiredState{
			Kyma:        kymaSeed(request),
			Manifests:   []bundle.Manifest{},
			CRDs:        crds,
			Settings:    request.Settings,
			Watchers:    request.Watchers,
			Maintenance: request.Maintenance,
		},
		Catalog:        snapshot.VisibleCatalog(request.Labels, request.catalogVersionOf()),
		RequestedNames: []string{},
	}
	result.State.Takeover = request.Takeover
	result.Versions = map[string]string{}
	switch {
	case request.Takeover == bundle.TakeoverRelease:
		return result.withoutModules(request)
	case request.RequestUnknown:
		return result.keepLastModules(request)
	}
	if request.IsDeleting {
		result.State.Watchers, result.State.Maintenance = nil, nil
	}
	if request.IsDeleting || request.OmitsCatalog {
		result.Catalog = bundle.Catalog{
			ModuleTemplates: []bundle.CatalogEntry{}, ModuleReleaseMetas: []bundle.CatalogEntry{},
		}
	}
	wanted := requestedModules(request, snapshot)
	if !request.IsDeleting {
		result.State.Problems = append(result.State.Problems, request.ownRequest(snapshot).Ignored...)
	}
	for _, w := range wanted {
		result.addModule(w, request, contents)
	}
	for _, w := range offeredModules(request, snapshot) {
		content, known := contents[componentRef(w.choice)]
		manifest, err := newManifest(w, content)
		if known && err == nil && len(request.unsupportedFeatures(manifest)) == 0 &&
			request.checkValues(manifest) == nil {
			result.State.Offers = append(result.State.Offers, *manifest)
		}
	}
	for _, w := range removedModules(request, snapshot) {
		if slices.Contains(result.RequestedNames, w.module.Name) || w.err != nil {
			continue
		}
		content, known := contents[componentRef(w.choice)]
		manifest, err := newManifest(w, content)
		if known && err == nil && len(request.unsupportedFeatures(manifest)) == 0 {
			result.State.Leaving = append(result.State.Leaving, *manifest)
		}
	}
	result.fitManifests(request)
	return result
}

func (r *Result) addModule(w requestedModule, request Request, contents map[ComponentRef]Content) {
	installed := !w.isRevoked || !w.module.Managed
	if installed {
		r.RequestedNames = append(r.RequestedNames, w.module.Name)
	}
	manifest, problem := r.usableManifest(w, request, contents)
	if w.triedModule != nil {
		switch tried, cause := r.usableManifest(*w.triedModule, request, contents); {
		case cause != nil:
			problem = cause
		case tried != nil:
			r.triedManifests = append(r.triedManifests, *tried)
		}
	}
	manifest = request.withChecks(manifest, w.gate)
	switch {
	case manifest != nil:
		r.State.Manifests = append(r.State.Manifests, *manifest)
		r.Versions[w.module.Name] = manifest.Version
	case installed && w.minVersion != "":
		r.Versions[w.module.Name] = w.minVersion
	}
	channel := cmp.Or(w.module.Channel, request.Requested.Channel)
	if w.choice.Mandatory {
		channel = ""
	}
	if problem != nil {
		problem.Module, problem.Channel = w.module.Name, channel
		r.State.Problems = append(r.State.Problems, *problem)
	}
	if held := w.adoptionMessage(); held != "" && problem == nil {
		r.Remarks = append(r.Remarks, bundle.Problem{
			Module: w.module.Name, Channel: channel, State: v1beta2.StateReady, Message: held,
		})
	}
	if w.gate.HeldReason == "" || manifest == nil {
		return
	}
	list := &r.HeldProblems
	if w.gate.ReplacedVersion != "" {
		list = &r.Remarks
	}
	*list = append(*list, bundle.Problem{
		Module: w.module.Name, Channel: channel, State: v1beta2.StateReady, Message: w.gate.HeldReason,
	})
}

// usableManifest returns the manifest of a module, limited to features that the agent supports. If the manifest does
// not match the request, it also returns the problem.
func (r *Result) usableManifest(
	w requestedModule, request Request, contents map[ComponentRef]Content,
) (*bundle.Manifest, *bundle.Problem) {
	last := lastManifest(request.LastState, w.module.Name)
	manifest, problem := decideManifest(w, request.IsControlPlane, last, contents)
	if missing := request.unsupportedFeatures(manifest); len(missing) > 0 {
		r.addUnsupported(missing)
		manifest, problem = request.supportedManifest(last), outdatedProblem(w.module.Name, missing)
	} else if err := request.checkValues(manifest); err != nil {
		manifest, problem = request.supportedManifest(last), newFailure(reason.Of(err), "%v", err)
	}
	if problem != nil {
		problem.Version = w.version
	}
	return manifest, problem
}

// offeredModules returns the modules that a runtime can choose by itself, with one entry for each channel of a module.
// It returns nil if the runtime does not have autonomy.
func offeredModules(request Request, snapshot *catalog.Snapshot) []requestedModule {
	if request.Settings.Autonomy != bundle.AutonomyCatalog || request.IsDeleting {
		return nil
	}
	choices := snapshot.OfferedChannels(request.Labels)
	var all []requestedModule
	for _, module := range slices.Sorted(maps.Keys(choices)) {
		for _, channel := range choices[module] {
			w := requestedModule{
				module: v1beta2.Module{
					Name: module, Channel: channel, Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete,
				},
			}
			w.lookupChoice(request, snapshot, channel)
			if w.err == nil && !request.IsControlPlane && w.isForControlPlane() {
				continue
			}
			all = append(all, w)
		}
	}
	return all
}

// removedModules returns the modules to remove. Each has the version that its channel offers now, not the installed
// version, because the removal may work only with a newer version of the module's operator. If the channel offers an
// older version, the module is removed with its installed version.
func removedModules(request Request, snapshot *catalog.Snapshot) []requestedModule {
	var all []requestedModule
	for _, module := range request.RemovedModules {
		if request.Gates[rollout.Track{Module: module.Name, Channel: module.Channel}].HeldReason != "" {
			// A rollout delays the channel's version, so the removal must use the module's installed version.
			continue
		}
		w := requestedModule{module: module}
		w.choice, w.err = snapshot.Lookup(module.Name, module.Channel, labels.Set(request.Labels))
		if w.err == nil && bundle.IsOlder(w.choice.Version, request.RemovedVersions[module.Name]) {
			continue
		}
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b requestedModule) int { return cmp.Compare(a.module.Name, b.module.Name) })
	return all
}

// newerVersion compares the version of a module in the last bundle with the version in the Kyma's status, and returns
// the newer one.
func newerVersion(last *bundle.Manifest, recorded string) string {
	if last == nil || bundle.IsOlder(last.Version, recorded) {
		return recorded
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

// copiedLabels lists the labels that are always copied from the control plane's Kyma to the Kyma in the runtime.
var copiedLabels = []string{v1beta2.LabelBeta, v1beta2.LabelInternal, v1beta2.LabelPurpose}

func kymaSeed(request Request) bundle.KymaSeed {
	s := bundle.KymaSeed{Spec: *request.Seed.DeepCopy(), Labels: map[string]string{
		v1beta2.LabelManagedBy: v1beta2.ManagedByKyma, v1beta2.LabelWatchedBy: v1beta2.ManagedByKyma,
	}}
	if request.OmitsSeedModules {
		s.Spec.Modules = nil
	}
	// Sort the modules, because their order has no meaning in the API.
	slices.SortFunc(s.Spec.Modules, func(a, b v1beta2.Module) int { return cmp.Compare(a.Name, b.Name) })
	maps.Copy(s.Labels, request.CopiedLabels)
	for _, label := range copiedLabels {
		if value, ok := request.Labels[label]; ok {
			s.Labels[label] = value
		}
	}
	return s
}

// ModuleVersions maps each module in a desired state to the version in its manifest.
func ModuleVersions(state bundle.DesiredState) map[string]string {
	versions := make(map[string]string, len(state.Manifests))
	for _, m := range state.Manifests {
		versions[m.Module] = m.Version
	}
	return versions
}

// RemovedNames returns the installed modules that are not requested. It omits a module if the runtime has confirmed its
// removal.
func RemovedNames(installed, requested []string, confirmed map[string]bool) []string {
	gone := map[string]bool{}
	for _, module := range installed {
		if !slices.Contains(requested, module) && !confirmed[module] {
			gone[module] = true
		}
	}
	return slices.Sorted(maps.Keys(gone))
}
