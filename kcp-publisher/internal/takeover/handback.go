package takeover

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// Handback describes the return of a Kyma to lifecycle-manager.
type Handback struct {
	// Modules contains the entries of status.modules that lifecycle-manager needs to continue. lifecycle-manager
	// would stop permanently at an entry without a version, or at a Manifest without an entry.
	//
	// Source: lifecycle-manager c5b83f1b, pkg/templatelookup/regular.go, internal/service/manifest/orphan.
	Modules []v1beta2.ModuleStatus
	// Behind maps the name of each Manifest with an older or unknown version to the version that runs in the runtime.
	// lifecycle-manager must update these Manifests.
	Behind map[string]string
	// Refused maps the name of each Manifest that must not be returned to the reason: lifecycle-manager would downgrade
	// its module, or the module is unknown.
	Refused map[string]string
}

// refusal returns an error with the reasons in Refused, or nil.
func (h Handback) refusal() error {
	if len(h.Refused) == 0 {
		return nil
	}
	reasons := make([]string, 0, len(h.Refused))
	for _, name := range slices.Sorted(maps.Keys(h.Refused)) {
		reasons = append(reasons, h.Refused[name])
	}
	return errors.New(strings.Join(reasons, "; "))
}

// newHandback returns the Handback for a Kyma. It does not perform I/O. If an interrupted return continues, it returns
// the same Handback again.
func newHandback(kyma *v1beta2.Kyma, manifests []v1beta2.Manifest, offered *catalog.Snapshot) Handback {
	h := Handback{Behind: map[string]string{}, Refused: map[string]string{}}
	known := map[string]bool{}
	for i := range manifests {
		m := &manifests[i]
		module := moduleName(kyma, m)
		if module == "" {
			if m.DeletionTimestamp.IsZero() {
				h.Refused[m.Name] = fmt.Sprintf("Manifest %s/%s does not name its module: add the label %s", m.Namespace,
					m.Name, v1beta2.LabelModuleName)
			}
			continue
		}
		known[module] = true
		runs := cmp.Or(runningVersion(kyma, module),
			newerVersion(installedVersion(kyma, module, m), recordedVersion(kyma, module)))
		if m.DeletionTimestamp.IsZero() {
			h.compare(kyma, m, module, runs, offered)
		}
		if !isMandatory(m) {
			h.Modules = append(h.Modules, newEntry(kyma, m, module, runs, offered))
		}
	}
	for _, m := range slices.Concat(kyma.Status.Modules, recordedEntries(kyma)) {
		if known[m.Name] || m.Version == "" {
			continue
		}
		known[m.Name] = true
		entry := v1beta2.ModuleStatus{
			Name:             m.Name,
			FQDN:             m.FQDN,
			OcmComponentName: m.OcmComponentName,
			Channel:          m.Channel,
			Version:          m.Version,
			State:            v1beta2.StateUnmanaged,
		}
		if !staysUnmanaged(kyma, m) {
			entry.State, entry.Template = v1beta2.StateProcessing,
				findTemplate(m.Name, m.Channel, m.Version, kyma.Namespace, offered)
		}
		h.Modules = append(h.Modules, entry)
	}
	slices.SortFunc(h.Modules, func(a, b v1beta2.ModuleStatus) int { return strings.Compare(a.Name, b.Name) })
	return h
}

// recordedEntries returns an entry of status.modules for each module in the record of the takeover. The publisher
// removes lifecycle-manager's entries from status.modules until the runtime reports its request. recordedEntries omits
// the modules that the Kyma no longer requests.
func recordedEntries(kyma *v1beta2.Kyma) (entries []v1beta2.ModuleStatus) {
	spec := plan.KnownRequest(kyma)
	for _, m := range recordedModules(kyma) {
		if spec != nil && !slices.ContainsFunc(spec.Modules, func(r v1beta2.Module) bool { return r.Name == m.Name }) {
			continue
		}
		entry := v1beta2.ModuleStatus{Name: m.Name, Channel: m.Channel, Version: m.Version}
		if m.Unmanaged {
			entry.State = v1beta2.StateUnmanaged
		}
		entries = append(entries, entry)
	}
	return entries
}

func recordedVersion(kyma *v1beta2.Kyma, module string) string {
	for _, m := range recordedModules(kyma) {
		if m.Name == module {
			return m.Version
		}
	}
	return ""
}

func recordedModules(kyma *v1beta2.Kyma) []v1beta2.InheritedModule {
	if s := kyma.Status.Runtime; s != nil && s.Takeover != nil {
		return s.Takeover.Modules
	}
	return nil
}

// staysUnmanaged reports whether lifecycle-manager must not manage a module. If the request is known, the module's
// state does not count, because all modules are Unmanaged after the runtime has released them.
func staysUnmanaged(kyma *v1beta2.Kyma, m v1beta2.ModuleStatus) bool {
	if spec := plan.KnownRequest(kyma); spec != nil {
		return isUnmanaged(spec, m.Name)
	}
	return m.State == v1beta2.StateUnmanaged
}

// compare compares the version in a Manifest with the version that runs in the runtime. If the Manifest has an older
// or unknown version, compare adds it to Behind or to Refused. It adds the Manifest to Behind if the module's
// channel offers at least the running version, so that lifecycle-manager will update the Manifest.
func (h *Handback) compare(kyma *v1beta2.Kyma, m *v1beta2.Manifest, module, runs string, offered *catalog.Snapshot) {
	has, source, next := m.Spec.Version, "", ""
	if isMandatory(m) {
		source, next = "its mandatory version is", mandatoryVersion(module, offered)
		runs = newerVersion(runs, next)
	} else {
		channel := followedChannel(kyma, m, module)
		source = fmt.Sprintf("channel %q has", channel)
		next, _ = offered.OfferedVersion(module, channel, kyma.Labels) // empty without a version
	}
	switch {
	case runs == "", has != "" && !bundle.IsOlder(has, runs):
	case next == "" || bundle.IsOlder(next, runs):
		h.Refused[m.Name] = fmt.Sprintf(
			"module %s runs in version %s, Manifest %s/%s has %s, and %s %s: lifecycle-manager would downgrade it%s; "+
				"first make %s or newer available there",
			module,
			runs,
			m.Namespace,
			m.Name,
			cmp.Or(has, "no version"),
			source,
			cmp.Or(next, "no version"),
			map[bool]string{true: " to " + has}[has != ""],
			runs,
		)
	default:
		h.Behind[m.Name] = runs
	}
}

func newEntry(
	kyma *v1beta2.Kyma, m *v1beta2.Manifest, module, runs string, offered *catalog.Snapshot,
) v1beta2.ModuleStatus {
	component := m.Annotations[v1beta2.AnnotationFQDN]
	entry := v1beta2.ModuleStatus{
		Name: module, FQDN: component, OcmComponentName: component, Channel: followedChannel(kyma, m, module), Version: runs,
		State: cmp.Or(m.Status.State, v1beta2.StateProcessing),
		Manifest: &v1beta2.TrackingObject{
			TypeMeta:    metav1.TypeMeta{APIVersion: v1beta2.GroupVersion.String(), Kind: "Manifest"},
			PartialMeta: v1beta2.PartialMeta{Name: m.Name, Namespace: m.Namespace, Generation: m.Generation},
		},
		Template: findTemplate(module, m.Labels[v1beta2.LabelChannel], runs, m.Namespace, offered),
	}
	if r := m.Spec.Resource; r != nil && m.Spec.CustomResourcePolicy != v1beta2.PolicyIgnore {
		entry.Resource = &v1beta2.TrackingObject{
			TypeMeta: metav1.TypeMeta{APIVersion: r.GetAPIVersion(), Kind: r.GetKind()},
			PartialMeta: v1beta2.PartialMeta{
				Name: r.GetName(), Namespace: r.GetNamespace(), Generation: r.GetGeneration(),
			},
		}
	}
	return entry
}

// findTemplate returns the reference to a module's ModuleTemplate for status.modules. lifecycle-manager compares
// versions only if an entry has this reference. If the ModuleTemplate does not exist, the reference contains the name
// that it would usually have.
func findTemplate(module, channel, version, namespace string, offered *catalog.Snapshot) *v1beta2.TrackingObject {
	template := &v1beta2.TrackingObject{
		TypeMeta:    metav1.TypeMeta{APIVersion: v1beta2.GroupVersion.String(), Kind: "ModuleTemplate"},
		PartialMeta: v1beta2.PartialMeta{Name: module + "-" + version, Namespace: namespace},
	}
	if choice, err := offered.LookupInstalled(module, channel, version); err == nil {
		template.PartialMeta = v1beta2.PartialMeta{
			Name:       choice.Template.Name,
			Namespace:  choice.Template.Namespace,
			Generation: choice.Template.Generation,
		}
	}
	return template
}

// runningVersion returns a module's last reported version, or a mandatory module's published version.
func runningVersion(kyma *v1beta2.Kyma, module string) string {
	for _, m := range kyma.Status.Modules {
		if m.Name == module {
			return m.Version
		}
	}
	if s := kyma.Status.Runtime; s != nil && s.Published != nil {
		return s.Published.Versions[module]
	}
	return ""
}

// followedChannel returns the channel that the Kyma requests for a module. If the request is unknown, it returns the
// channel in status.modules, because handBack removes the request from the status. For any other module, it returns the
// channel in the Manifest.
func followedChannel(kyma *v1beta2.Kyma, m *v1beta2.Manifest, module string) string {
	if spec := plan.KnownRequest(kyma); spec != nil {
		for _, asked := range spec.Modules {
			if asked.Name == module {
				return cmp.Or(asked.Channel, spec.Channel)
			}
		}
		return m.Labels[v1beta2.LabelChannel]
	}
	at := slices.IndexFunc(kyma.Status.Modules, func(s v1beta2.ModuleStatus) bool { return s.Name == module })
	if at >= 0 && kyma.Status.Modules[at].Channel != "" {
		return kyma.Status.Modules[at].Channel
	}
	return m.Labels[v1beta2.LabelChannel]
}

func isMandatory(m *v1beta2.Manifest) bool {
	return m.Labels[v1beta2.LabelMandatoryModule] == v1beta2.True
}

func mandatoryVersion(module string, offered *catalog.Snapshot) string {
	for _, choice := range offered.MandatoryModules() {
		if choice.Module == module {
			return choice.Version
		}
	}
	return ""
}

func newerVersion(a, b string) string {
	if a == "" || bundle.IsOlder(a, b) {
		return b
	}
	return a
}

// returnedStatus returns the status that lifecycle-manager needs to continue. It omits fields that lifecycle-manager
// does not use.
func returnedStatus(before v1beta2.KymaStatus, h Handback) v1beta2.KymaStatus {
	after := v1beta2.KymaStatus{
		ActiveChannel: before.ActiveChannel,
		State:         before.State,
		LastOperation: before.LastOperation,
		Modules:       h.Modules,
	}
	theirs := append(
		[]string{v1beta2.ConditionModules, v1beta2.ConditionModuleCatalog, v1beta2.ConditionSKRWebhook},
		v1beta2.LifecycleManagerConditions...)
	for _, c := range before.Conditions {
		if slices.Contains(theirs, c.Type) {
			after.Conditions = append(after.Conditions, c)
		}
	}
	return after
}
