package catalog

import (
	"encoding/json"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// IsHidden reports whether a lookup failed because labels or a selector hide the module from the Kyma. After this
// error, the publisher removes an installed module. After any other error, the module stays installed.
//
// Source: lifecycle-manager, pkg/module/sync, "Due to module template visibility change, some module previously
// deployed should be removed".
func IsHidden(err error) bool {
	var h hiddenError
	return errors.As(err, &h)
}

type hiddenError struct{ error }

func (h hiddenError) Unwrap() error { return h.error }

func newHiddenError(format string, args ...any) error {
	return hiddenError{reason.Errorf(reason.ModuleNotOffered, format, args...)}
}

func (o *moduleOffer) hiddenReason(kyma labels.Set) string {
	spec := o.meta.Spec
	switch {
	case spec.Beta && kyma[v1beta2.LabelBeta] != v1beta2.True:
		return "it is a beta module and the Kyma is not labeled " + v1beta2.LabelBeta + "=true"
	case spec.Internal && kyma[v1beta2.LabelInternal] != v1beta2.True:
		return "it is an internal module and the Kyma is not labeled " + v1beta2.LabelInternal + "=true"
	case !o.selector.Matches(kyma):
		if spec.KymaSelector == nil {
			return "it is restricted and its ModuleReleaseMeta has no kymaSelector"
		}
		return "its kymaSelector does not select the Kyma"
	}
	return labelHiddenReason(o.meta.Labels, kyma)
}

func labelHiddenReason(own map[string]string, kyma labels.Set) string {
	for _, label := range []string{v1beta2.LabelBeta, v1beta2.LabelInternal} {
		if own[label] == v1beta2.True && kyma[label] != v1beta2.True {
			return "it is labeled " + label + "=true and the Kyma is not"
		}
	}
	return ""
}

// listTemplates returns the ModuleTemplates of a module's version. In a valid catalog, each version has exactly one.
func (s *Snapshot) listTemplates(module, version string) []*template {
	var found []*template
	for _, t := range s.byModule[module] {
		if t.version == version {
			found = append(found, t)
		}
	}
	if len(found) > 0 {
		return found
	}
	for _, t := range s.templatesByName[module+"-"+version] {
		if t.Name == module+"-"+version {
			found = append(found, t)
		}
	}
	return found
}

// VersionTemplates returns the ModuleTemplates of a module's version. It finds the same ModuleTemplates as a lookup. In
// a valid catalog, each version has exactly one.
func (s *Snapshot) VersionTemplates(module, version string) []*v1beta2.ModuleTemplate {
	var found []*v1beta2.ModuleTemplate
	for _, t := range s.listTemplates(module, version) {
		found = append(found, &t.ModuleTemplate)
	}
	return found
}

// VisibleCatalog returns the part of the catalog that is published to a Kyma with these labels: the channels that the
// Kyma can use, and their ModuleTemplates. It omits mandatory modules. For each channel, heldVersion returns the
// version that a rollout keeps in the runtime, or "". If the catalog is too large for a bundle, VisibleCatalog omits
// its largest entries.
//
// Source: lifecycle-manager, internal/remote, GetModuleReleaseMetasToSync and FilterAllowedModuleTemplates.
func (s *Snapshot) VisibleCatalog(kyma labels.Set, heldVersion func(module, channel string) string) bundle.Catalog {
	var metas, templates []sizedEntry
	named := map[*template]bool{}
	for _, name := range s.moduleNames() {
		o := s.metas[name]
		channels := s.visibleChannels(o, kyma, heldVersion, func(t *template) bool { return t.isVisible(kyma) })
		if len(channels) == 0 || o.withheldReason != nil {
			continue
		}
		metas = append(metas, sizedEntry{o.entryWithChannels(channels), o.size})
		for _, c := range channels {
			for _, t := range s.listTemplates(name, c.Version) {
				named[t] = true
			}
		}
	}
	for _, t := range s.templates {
		if (named[t] || s.isFoundWithoutMeta(t)) && t.isVisible(kyma) {
			templates = append(templates, sizedEntry{t.entry, t.size})
		}
	}
	most := maxEntrySize(metas, templates)
	return bundle.Catalog{ModuleTemplates: entriesUpTo(most, templates), ModuleReleaseMetas: entriesUpTo(most, metas)}
}

type sizedEntry struct {
	entry bundle.CatalogEntry
	size  int
}

// catalogBytes limits the total size of the catalog entries. It leaves 64 KiB for the rest of the catalog document.
const catalogBytes = bundle.MaxDocumentBytes - 64<<10

// maxEntrySize returns the size in bytes above which VisibleCatalog omits an entry. If the catalog is too large,
// VisibleCatalog omits the largest entries first, so that one large module does not displace many small ones.
func maxEntrySize(metas, templates []sizedEntry) int {
	total := 0
	sizes := make([]int, 0, len(metas)+len(templates))
	for _, entries := range [][]sizedEntry{metas, templates} {
		for _, e := range entries {
			sizes = append(sizes, e.size+len(","))
			total += e.size + len(",")
		}
	}
	if total <= catalogBytes {
		return bundle.MaxDocumentBytes
	}
	slices.Sort(sizes)
	total = 0
	for _, size := range sizes {
		if total += size; total > catalogBytes {
			return size - len(",") - 1 // one byte less, so that all entries of this size are omitted
		}
	}
	return bundle.MaxDocumentBytes
}

func entriesUpTo(maxSize int, entries []sizedEntry) []bundle.CatalogEntry {
	fitting := make([]bundle.CatalogEntry, 0, len(entries))
	for _, e := range entries {
		if e.size <= maxSize {
			fitting = append(fitting, e.entry)
		}
	}
	return fitting
}

// visibleChannels returns the channels of a module that a Kyma can use. It omits a channel if isVisible returns false
// for all ModuleTemplates of the channel's version. For each channel, heldVersion returns the version that a rollout
// keeps in the runtime, or "".
func (s *Snapshot) visibleChannels(
	o *moduleOffer, kyma labels.Set, heldVersion func(module, channel string) string, isVisible func(*template) bool,
) []v1beta2.ChannelVersion {
	if o.isMandatory || o.parseError != nil || o.hiddenReason(kyma) != "" {
		return nil
	}
	var all []v1beta2.ChannelVersion
	module := o.meta.Spec.ModuleName
	for _, c := range o.meta.Spec.Channels {
		if heldVersion != nil {
			if version := heldVersion(module, c.Channel); version != "" &&
				slices.ContainsFunc(s.listTemplates(module, version), isVisible) {
				c.Version = version
			}
		}
		if slices.ContainsFunc(s.listTemplates(module, c.Version), isVisible) {
			all = append(all, c)
		}
	}
	return all
}

// ChannelVersion returns the version of a channel in a module's ModuleReleaseMeta, or "". It ignores whether the module
// is hidden from Kymas.
func (s *Snapshot) ChannelVersion(module, channel string) string {
	o := s.metas[module]
	if o == nil {
		return ""
	}
	return o.channelVersion(channel)
}

func (o *moduleOffer) channelVersion(channel string) string {
	for _, c := range o.meta.Spec.Channels {
		if c.Channel == channel && c.Version != "" {
			return c.Version
		}
	}
	return ""
}

func (o *moduleOffer) entryWithChannels(channels []v1beta2.ChannelVersion) bundle.CatalogEntry {
	if slices.Equal(channels, o.meta.Spec.Channels) {
		return o.entry
	}
	spec := o.meta.Spec
	spec.Channels = channels
	e := o.entry
	e.Spec, _ = json.Marshal(spec) // cannot fail: newOffer already encoded this spec
	return e
}

func (t *template) isVisible(kyma labels.Set) bool {
	return t.withheldReason == nil && !t.Spec.Mandatory && t.Labels[v1beta2.LabelSync] != v1beta2.False &&
		labelHiddenReason(t.Labels, kyma) == ""
}

// isFoundWithoutMeta reports whether lookupWithoutMeta can find a ModuleTemplate: the ModuleTemplate has a
// spec.channel, and its module does not have a ModuleReleaseMeta and is not restricted.
func (s *Snapshot) isFoundWithoutMeta(t *template) bool {
	return t.Spec.Channel != "" && s.metas[t.module] == nil && !slices.Contains(s.restricted, t.module)
}

// OfferedChannels returns the modules that a Kyma with these labels can choose, with the channels of each module.
func (s *Snapshot) OfferedChannels(kyma labels.Set) map[string][]string {
	offers := map[string][]string{}
	for _, name := range s.moduleNames() {
		for _, c := range s.visibleChannels(s.metas[name], kyma, nil,
			func(t *template) bool { return labelHiddenReason(t.Labels, kyma) == "" }) {
			offers[name] = append(offers[name], c.Channel)
		}
		slices.Sort(offers[name])
	}
	return offers
}

// ProvidedBy returns a snapshot for modules that set this controller in their spec.modules entry. Its lookups find only
// ModuleTemplates with the same value in their controller-name label. If controller is empty, lookups find all
// ModuleTemplates.
func (s *Snapshot) ProvidedBy(controller string) *Snapshot {
	if controller == s.controller {
		return s
	}
	narrowed := *s
	narrowed.controller = controller
	return &narrowed
}

func (s *Snapshot) filterByController(all []*template) []*template {
	if s.controller == "" {
		return all
	}
	var found []*template
	for _, t := range all {
		if t.Labels[v1beta2.LabelControllerName] == s.controller {
			found = append(found, t)
		}
	}
	return found
}

func (s *Snapshot) checkController(module string, all []*template) error {
	if len(all) == 0 || len(s.filterByController(all)) > 0 {
		return nil
	}
	return reason.Errorf(reason.CatalogInvalid,
		"module %s: ModuleTemplate %s does not have the controller name %s: set its label %s, or correct "+
			"spec.modules[].controller",
		module, objectKey(slices.MinFunc(all, byKey)), bundle.Quote(s.controller, maxControllerBytes),
		v1beta2.LabelControllerName)
}

// maxControllerBytes is the maximum length of a controller name. A longer name cannot be a label value.
const maxControllerBytes = 63

func objectKey(object metav1.Object) string { return object.GetNamespace() + "/" + object.GetName() }

func (s *Snapshot) moduleNames() []string {
	names := make([]string, 0, len(s.metas))
	for name := range s.metas {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// DefinedValues returns the references from ModuleTemplates to defined runtime values, sorted. A reference is usable if
// its value has the right type. Otherwise, it is invalid.
func (s *Snapshot) DefinedValues(values bundle.Values) (usable, invalid []bundle.ValueRef) {
	for ref := range s.valueRefs {
		value, defined := values[ref.Name()]
		switch {
		case !defined:
		case ref.Accepts(value):
			usable = append(usable, ref)
		default:
			invalid = append(invalid, ref)
		}
	}
	slices.Sort(usable)
	slices.Sort(invalid)
	return usable, invalid
}

// Templates returns the metadata of the ModuleTemplates with these names, in the format of a Kyma's status. It omits
// names without a ModuleTemplate.
func (s *Snapshot) Templates(names ...string) map[string]v1beta2.PartialMeta {
	found := make(map[string]v1beta2.PartialMeta, len(names))
	for _, name := range names {
		for _, t := range s.templatesByName[name] {
			if t.Name == name {
				found[name] = v1beta2.PartialMeta{Name: name, Namespace: t.Namespace, Generation: t.Generation}
			}
		}
	}
	return found
}

// RelevantLabels returns the Kyma labels that can affect which modules the Kyma can use.
func (s *Snapshot) RelevantLabels(kyma map[string]string) map[string]string {
	relevant := map[string]string{}
	for key, value := range kyma {
		if s.selectorKeys[key] || key == v1beta2.LabelBeta || key == v1beta2.LabelInternal || key == v1beta2.LabelPurpose {
			relevant[key] = value
		}
	}
	return relevant
}
