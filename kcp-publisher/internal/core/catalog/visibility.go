package catalog

import (
	"encoding/json"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// Hidden reports whether a lookup failed because labels or a selector hide the module from the Kyma. Unlike a missing
// or invalid template, that is an operator's decision: an installed module must be removed.
//
// Source: lifecycle-manager, pkg/module/sync, "Due to module template visibility change, some module previously
// deployed should be removed".
func Hidden(err error) bool {
	var h hiddenError
	return errors.As(err, &h)
}

// hiddenError is the error of a lookup of a module that is hidden from the Kyma.
type hiddenError struct{ error }

func (h hiddenError) Unwrap() error { return h.error }

func hidden(format string, args ...any) error {
	return hiddenError{reason.Errorf(reason.ModuleNotOffered, format, args...)}
}

func (o *offer) hiddenFrom(kyma labels.Set) string {
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
	return hiddenByLabels(o.meta.Labels, kyma)
}

func hiddenByLabels(own map[string]string, kyma labels.Set) string {
	for _, label := range []string{v1beta2.LabelBeta, v1beta2.LabelInternal} {
		if own[label] == v1beta2.True && kyma[label] != v1beta2.True {
			return "it is labeled " + label + "=true and the Kyma is not"
		}
	}
	return ""
}

// templatesOf returns the templates of a module's version: one, unless there is a problem.
func (s *Snapshot) templatesOf(module, version string) []*template {
	var found []*template
	for _, t := range s.byModule[module] {
		if t.version == version {
			found = append(found, t)
		}
	}
	if len(found) > 0 {
		return found
	}
	for _, t := range s.called[module+"-"+version] {
		if t.Name == module+"-"+version {
			found = append(found, t)
		}
	}
	return found
}

// Visible returns the catalog that a Kyma with these labels may choose from: ModuleReleaseMetas with the channels that
// it may follow, and the templates that those mean. Mandatory modules are not for choosing.
//
// Source: lifecycle-manager, internal/remote, GetModuleReleaseMetasToSync and FilterAllowedModuleTemplates. Templates of modules without a
// ModuleReleaseMeta are shown besides, where the older lookups find them.
//
// held returns the version that the runtime may have of a channel whose version is held back from it, empty for a
// channel without such. The channel is shown with that version and its template, so that the
// runtime does not see a version that is held back. If the version no longer has a template, the channel is shown
// unchanged, because it would otherwise disappear.
//
// If the entries exceed the size of a document, the largest ones are omitted.
func (s *Snapshot) Visible(kyma labels.Set, held func(module, channel string) string) bundle.Catalog {
	var metas, templates []sizedEntry
	named := map[*template]bool{}
	for _, name := range s.moduleNames() {
		o := s.metas[name]
		channels := s.channels(o, kyma, held, func(t *template) bool { return t.mayBeSeen(kyma) })
		if len(channels) == 0 || o.withheld != nil {
			continue
		}
		metas = append(metas, sizedEntry{o.entryWith(channels), o.size})
		for _, c := range channels {
			for _, t := range s.templatesOf(name, c.Version) {
				named[t] = true
			}
		}
	}
	for _, t := range s.templates {
		if (named[t] || s.foundByOlderLookups(t)) && t.mayBeSeen(kyma) {
			templates = append(templates, sizedEntry{t.entry, t.size})
		}
	}
	most := largestThatFits(metas, templates)
	return bundle.Catalog{ModuleTemplates: upTo(most, templates), ModuleReleaseMetas: upTo(most, metas)}
}

// sizedEntry is an entry with its encoded size in bytes.
type sizedEntry struct {
	entry bundle.CatalogEntry
	size  int
}

// catalogBytes bounds the entries of one Catalog document, which also has a header and separators.
const catalogBytes = bundle.MaxDocumentBytes - 64<<10

// largestThatFits returns the size of the largest entry that a document can carry together with all smaller ones. The
// largest entries are left out first, so that no module can push the others out of the catalog.
func largestThatFits(metas, templates []sizedEntry) int {
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
			return size - len(",") - 1 // entries of one size are kept or left out together
		}
	}
	return bundle.MaxDocumentBytes
}

func upTo(most int, entries []sizedEntry) []bundle.CatalogEntry {
	fitting := make([]bundle.CatalogEntry, 0, len(entries))
	for _, e := range entries {
		if e.size <= most {
			fitting = append(fitting, e.entry)
		}
	}
	return fitting
}

// channels returns the channels of a module that a Kyma with these labels may follow and whose templates it may use. A
// channel whose version is held back has the version that the Kyma may have.
func (s *Snapshot) channels(
	o *offer, kyma labels.Set, held func(module, channel string) string, may func(*template) bool,
) []v1beta2.ChannelVersion {
	if o.meta.Spec.Mandatory != nil || o.broken != nil || o.hiddenFrom(kyma) != "" {
		return nil
	}
	var all []v1beta2.ChannelVersion
	module := o.meta.Spec.ModuleName
	for _, c := range o.meta.Spec.Channels {
		if held != nil {
			if version := held(module, c.Channel); version != "" &&
				slices.ContainsFunc(s.templatesOf(module, version), may) {
				c.Version = version
			}
		}
		if slices.ContainsFunc(s.templatesOf(module, c.Version), may) {
			all = append(all, c)
		}
	}
	return all
}

// Channel returns the version of a channel of a ModuleReleaseMeta, regardless of its visibility. It is empty without
// one.
func (s *Snapshot) Channel(module, channel string) string {
	o := s.metas[module]
	if o == nil {
		return ""
	}
	return o.version(channel)
}

func (o *offer) version(channel string) string {
	for _, c := range o.meta.Spec.Channels {
		if c.Channel == channel && c.Version != "" {
			return c.Version
		}
	}
	return ""
}

// entryWith returns the entry for runtimes that see only the given channels of the module.
func (o *offer) entryWith(channels []v1beta2.ChannelVersion) bundle.CatalogEntry {
	if slices.Equal(channels, o.meta.Spec.Channels) {
		return o.entry
	}
	spec := o.meta.Spec
	spec.Channels = channels
	e := o.entry
	e.Spec, _ = json.Marshal(spec) // it was encoded before, with other channels
	return e
}

func (t *template) mayBeSeen(kyma labels.Set) bool {
	return t.withheld == nil && !t.Spec.Mandatory && t.Labels[v1beta2.LabelSync] != v1beta2.False &&
		hiddenByLabels(t.Labels, kyma) == ""
}

// foundByOlderLookups reports whether a Kyma may request a template that names its own channel and has no
// ModuleReleaseMeta.
func (s *Snapshot) foundByOlderLookups(t *template) bool {
	return t.Spec.Channel != "" && s.metas[t.module] == nil && !slices.Contains(s.restricted, t.module)
}

// Offers returns the modules that a Kyma with these labels may choose, by name, with the channels that each has.
func (s *Snapshot) Offers(kyma labels.Set) map[string][]string {
	offers := map[string][]string{}
	for _, name := range s.moduleNames() {
		for _, c := range s.channels(s.metas[name], kyma, nil,
			func(t *template) bool { return hiddenByLabels(t.Labels, kyma) == "" }) {
			offers[name] = append(offers[name], c.Channel)
		}
		slices.Sort(offers[name])
	}
	return offers
}
