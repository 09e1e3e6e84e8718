package takeover

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/takeover/phase"
)

// Landscape contains a control plane's objects and the publisher's rules.
type Landscape struct {
	plan.Fleet
	// Manifests contains lifecycle-manager's Manifests.
	Manifests []v1beta2.Manifest
	Rules     plan.Rules
}

// Plan describes one Kyma's takeover.
type Plan struct {
	Kyma    string `json:"kyma"`
	Runtime string `json:"runtime"`
	// Phase is the takeover's current phase: none, adopt, clean, release, return or finished.
	Phase   string   `json:"phase"`
	Modules []Module `json:"modules"`
	// Obstacles lists the reasons why the takeover cannot start. Remarks lists messages that do not prevent the
	// takeover.
	Obstacles []string `json:"obstacles,omitempty"`
	Remarks   []string `json:"remarks,omitempty"`
	// Removes lists the objects that `takeover finish` removes from the control plane.
	Removes []string `json:"removes,omitempty"`
}

// Module is a module that lifecycle-manager installed.
type Module struct {
	Name      string `json:"name"`
	Channel   string `json:"channel,omitempty"`
	Installed string `json:"installed"`
	// Then is the version to which the module is upgraded after its adoption. It is empty if the version stays the
	// same.
	Then string `json:"then,omitempty"`
	// Note is the reason why the module is not upgraded or not adopted.
	Note string `json:"note,omitempty"`
}

// New returns a plan for each of the Kymas, in the same order.
func New(l Landscape, kymas []v1beta2.Kyma, now time.Time) []Plan {
	as := l.Fleet
	as.Kymas = slices.Clone(l.Kymas)
	for i := range as.Kymas {
		as.Kymas[i] = *previewKyma(&as.Kymas[i], l.Manifests)
	}
	preview := l.Rules.Preview(as, now)
	plans := make([]Plan, 0, len(kymas))
	for i := range kymas {
		plans = append(plans, l.plan(&kymas[i], preview, now))
	}
	return plans
}

func (l Landscape) plan(kyma *v1beta2.Kyma, preview *plan.Preview, now time.Time) Plan {
	own := manifestsOf(kyma, l.Manifests)
	p := Plan{
		Kyma: kyma.Name, Runtime: plan.RuntimeID(kyma), Phase: Phase(kyma), Modules: []Module{},
		Obstacles: listObstacles(kyma, own), Removes: listLeftovers(kyma, own),
	}
	request, err := preview.Request(previewKyma(kyma, l.Manifests))
	if err != nil {
		p.Obstacles = append(p.Obstacles, err.Error())
	}
	memory := takeoverStatus(kyma, own)
	installed := map[string]string{}
	for _, m := range memory.Modules {
		installed[m.Name] = m.Version
	}
	request.Versions = nil
	prospects := map[string]resolve.ModuleOutlook{}
	for _, prospect := range resolve.PredictModules(request, l.Catalog, installed, now) {
		prospects[prospect.Module] = prospect
	}
	for _, m := range memory.Modules {
		module := Module{
			Name: m.Name, Channel: m.Channel, Installed: m.Version, Then: prospects[m.Name].Version,
			Note: prospects[m.Name].HeldReason,
		}
		if _, err := l.Catalog.LookupInstalled(m.Name, m.Channel, m.Version); err != nil {
			module.Note = fmt.Sprintf("is not adopted until the catalog has version %s: %v", m.Version, err)
		}
		p.Modules = append(p.Modules, module)
	}
	if s := kyma.Status.Runtime; s == nil || s.Observed == nil {
		p.Remarks = append(p.Remarks,
			fmt.Sprintf("no agent has reported yet: install one with the output of `kcp-publisher enroll %s --kyma %s/%s`",
				p.Runtime, kyma.Namespace, kyma.Name))
	}
	return p
}

func takeoverStatus(kyma *v1beta2.Kyma, manifests []v1beta2.Manifest) *v1beta2.TakeoverStatus {
	if s := kyma.Status.Runtime; s != nil && s.Takeover != nil && v1beta2.TakenOver(kyma) {
		return s.Takeover
	}
	return recordModules(kyma, manifests)
}

// previewKyma returns a copy of a Kyma with the changes that the start of a takeover makes. If the runtime's request
// is unknown, the copy requests all installed modules.
func previewKyma(kyma *v1beta2.Kyma, manifests []v1beta2.Manifest) *v1beta2.Kyma {
	as := kyma.DeepCopy()
	delete(as.Labels, v1beta2.LabelTakeover)
	if as.Status.Runtime != nil && as.Status.Runtime.Requested != nil {
		return as
	}
	spec := v1beta2.KymaSpec{
		Channel:                cmp.Or(as.Status.ActiveChannel, as.Spec.Channel),
		SkipMaintenanceWindows: as.Spec.SkipMaintenanceWindows,
	}
	for _, m := range takeoverStatus(kyma, manifestsOf(kyma, manifests)).Modules {
		module := v1beta2.Module{
			Name: m.Name, Managed: !m.Unmanaged, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete,
		}
		if m.Channel != spec.Channel {
			module.Channel = m.Channel
		}
		spec.Modules = append(spec.Modules, module)
	}
	if as.Status.Runtime == nil {
		as.Status.Runtime = &v1beta2.RuntimeStatus{}
	}
	as.Status.Runtime.Requested = &v1beta2.RequestedSpec{Spec: spec}
	return as
}

func listObstacles(kyma *v1beta2.Kyma, manifests []v1beta2.Manifest) (all []string) {
	if !kyma.DeletionTimestamp.IsZero() {
		all = append(all, "the Kyma is being deleted: wait until lifecycle-manager has completed the deletion")
	}
	if _, err := phase.PhaseOf(kyma); err != nil {
		all = append(all, err.Error())
	}
	if Phase(kyma) == PhaseNone && isManaged(kyma) {
		all = append(all, fmt.Sprintf("this publisher already manages the runtime, so there is nothing to take "+
			"over; if the label of an active takeover was removed manually, restore it: kubectl label kyma -n %s %s "+
			"%s=%s",
			kyma.Namespace, kyma.Name, v1beta2.LabelTakeover, v1beta2.TakeoverActive))
	}
	for i := range manifests {
		m := &manifests[i]
		module := m.Labels[v1beta2.LabelModuleName]
		reported := ""
		for _, s := range kyma.Status.Modules {
			if s.Name == module {
				reported = s.Version
			}
		}
		switch name := "Manifest " + m.Name; {
		case v1beta2.TakenOver(kyma): // lifecycle-manager ignores the Manifest, so its state does not matter
		case !m.DeletionTimestamp.IsZero():
			all = append(all,
				name+" is being deleted: wait until the module is uninstalled, or add it to the runtime's Kyma again")
		case module == "":
			all = append(all, name+" does not name its module: add the label "+v1beta2.LabelModuleName)
		case installedVersion(kyma, module, m) == "":
			all = append(all,
				name+" and the Kyma's status do not name the version: set spec.version of the Manifest to the "+
					"installed version")
		case m.Status.State == v1beta2.StateProcessing || m.Status.State == v1beta2.StateDeleting:
			all = append(all,
				fmt.Sprintf("%s is %s: wait until lifecycle-manager has reconciled it", name, m.Status.State))
		case reported != "" && m.Spec.Version != "" && reported != m.Spec.Version && Phase(kyma) != PhaseReturn:
			all = append(all,
				fmt.Sprintf("%s is being upgraded from %s to %s: wait until lifecycle-manager has reconciled it", name,
					reported, m.Spec.Version))
		}
	}
	return append(all, listExceededLimits(manifests)...)
}

// listExceededLimits returns a message for each limit in recordModules that the modules' objects exceed.
func listExceededLimits(manifests []v1beta2.Manifest) (all []string) {
	objects, bytes := 0, 0
	for i := range manifests {
		objects += len(manifests[i].Status.Synced)
		for _, o := range manifests[i].Status.Synced {
			bytes += resourceBytes(o)
		}
	}
	if objects > bundle.MaxInherited {
		all = append(all,
			fmt.Sprintf("the modules have %d objects, must have at most %d", objects,
				bundle.MaxInherited))
	}
	if bytes > maxInheritedBytes {
		all = append(all,
			fmt.Sprintf("the names of the modules' objects are %d bytes, must be at most %d", bytes,
				maxInheritedBytes))
	}
	return all
}

// isManaged reports whether this publisher has published modules to the runtime and has not returned the runtime to
// lifecycle-manager.
func isManaged(kyma *v1beta2.Kyma) bool {
	s := kyma.Status.Runtime
	return s != nil && s.Published != nil && len(s.Published.Versions) > 0 && !isGivenBack(s)
}

func isGivenBack(s *v1beta2.RuntimeStatus) bool {
	return s.Takeover != nil && s.Takeover.Published == string(bundle.TakeoverRelease)
}

// listLeftovers lists lifecycle-manager's Manifests, finalizer and conditions for a Kyma.
func listLeftovers(kyma *v1beta2.Kyma, manifests []v1beta2.Manifest) (all []string) {
	for _, m := range manifests {
		all = append(all, fmt.Sprintf("Manifest %s/%s", m.Namespace, m.Name))
	}
	if slices.Contains(kyma.Finalizers, v1beta2.LifecycleManagerFinalizerPurge) {
		all = append(all, "finalizer "+v1beta2.LifecycleManagerFinalizerPurge)
	}
	for _, kind := range v1beta2.LifecycleManagerConditions {
		if slices.ContainsFunc(kyma.Status.Conditions, func(c metav1.Condition) bool { return c.Type == kind }) {
			all = append(all, "condition "+kind)
		}
	}
	return all
}

// These takeover phases exist in addition to the values of bundle.TakeoverPhase. PhaseReturn lasts until
// lifecycle-manager manages all objects of a returned Kyma again.
const (
	PhaseNone     = "none"
	PhaseReturn   = "return"
	PhaseFinished = "finished"
)

// Phase returns a Kyma's takeover phase.
func Phase(kyma *v1beta2.Kyma) string {
	switch kyma.Labels[v1beta2.LabelTakeover] {
	case v1beta2.TakeoverFinished:
		return PhaseFinished
	case v1beta2.TakeoverActive:
		return cmp.Or(kyma.Annotations[v1beta2.AnnotationTakeoverPhase], string(bundle.TakeoverAdopt))
	}
	if kyma.Annotations[v1beta2.AnnotationTakeoverPhase] == string(bundle.TakeoverRelease) {
		return PhaseReturn
	}
	return PhaseNone
}

// UnreadyReason returns the reason why a takeover cannot be finished yet, or "".
func UnreadyReason(kyma *v1beta2.Kyma) string {
	s := kyma.Status.Runtime
	switch {
	case s == nil || s.Takeover == nil || s.Published == nil:
		return "the publisher has not published a bundle for the Kyma yet: check that the publisher is running and " +
			"that its --watch-label-selector selects the Kyma"
	case s.Observed == nil:
		return "the runtime has not reported yet: install the agent in the runtime"
	}
	var missing []string
	for _, m := range s.Takeover.Modules {
		if !m.Adopted && !m.Unmanaged && !isUnmanaged(plan.KnownRequest(kyma), m.Name) {
			missing = append(missing, m.Name)
		}
	}
	switch {
	case len(missing) > 0:
		why := "the runtime has not adopted " + strings.Join(missing, ", ") + " yet"
		if s.Takeover.Message != "" {
			why += ": " + s.Takeover.Message
		}
		return why
	case !s.HasAppliedNewest():
		return fmt.Sprintf("the runtime has not reported bundle %d yet", s.Published.Sequence)
	case kyma.Status.State != v1beta2.StateReady:
		return fmt.Sprintf("the state of the Kyma is %q: see `kcp-publisher why %s`", kyma.Status.State,
			plan.RuntimeID(kyma))
	}
	return ""
}

func isUnmanaged(requested *v1beta2.KymaSpec, module string) bool {
	return requested != nil && slices.ContainsFunc(requested.Modules, func(m v1beta2.Module) bool {
		return m.Name == module && !m.Managed
	})
}

// HasCompleted reports whether the latest bundle requests the phase and the runtime has completed it.
func HasCompleted(kyma *v1beta2.Kyma, phase bundle.TakeoverPhase) bool {
	s := kyma.Status.Runtime
	return s != nil && s.Takeover != nil && s.Takeover.Published == string(phase) && s.Takeover.Done == string(phase)
}

// IsUntouched reports whether the agent cannot have changed the runtime. In this case, no modules have to be returned
// to lifecycle-manager.
func IsUntouched(kyma *v1beta2.Kyma) bool {
	s := kyma.Status.Runtime
	if s == nil || s.Published == nil || s.Requested == nil && len(s.Published.Versions) == 0 {
		return true
	}
	return s.Observed == nil && s.Takeover != nil && s.Takeover.Published == string(bundle.TakeoverRelease)
}
