// Package catalog indexes what a control plane offers: ModuleTemplates and ModuleReleaseMetas go in, an immutable Snapshot
// comes out that answers which template a module in a channel means. It does no I/O and knows no runtime.
package catalog

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
)

// Snapshot is the catalog at one moment. It is safe for concurrent use.
type Snapshot struct {
	// Revision names the content: equal catalogs have equal revisions.
	Revision string

	metas     map[string]*offer // by module name
	templates []*template       // sorted by namespace and name
	byModule  map[string][]*template
	// called are the templates by all names that the older lookups know: label, name, namespace/name, component name.
	called map[string][]*template
	// selected are the keys of labels that any selector looks at.
	selected map[string]bool
}

// offer is a ModuleReleaseMeta with its entry for runtimes.
type offer struct {
	meta       v1beta2.ModuleReleaseMeta
	selector   labels.Selector
	entry      bundle.CatalogEntry
	disclosing error // why no runtime may see it
}

// template is a ModuleTemplate with what is derived from it once.
type template struct {
	v1beta2.ModuleTemplate
	module string // empty for a template that no module name leads to
	// descriptor is the inline one, nil without one or when it is broken.
	descriptor *ocm.Descriptor
	broken     error  // why the inline descriptor cannot be read
	component  string // from the inline descriptor, empty without one
	version    string
	entry      bundle.CatalogEntry
	disclosing error // why no runtime may see it
}

// Choice is the answer to "this module in this channel".
type Choice struct {
	Module    string
	Channel   string
	Version   string
	Component string
	Template  *v1beta2.ModuleTemplate
	// Descriptor is the template's own; nil when the component is to be read from a repository.
	Descriptor *ocm.Descriptor
	// NamesItself says that nothing but that descriptor says which component it is.
	NamesItself bool
	Mandatory   bool
	// Err is why a mandatory module, whatever its version, cannot be installed; only Module is known then.
	Err error
}

// New indexes templates and metas. Order does not matter.
func New(templates []v1beta2.ModuleTemplate, metas []v1beta2.ModuleReleaseMeta) (*Snapshot, error) {
	s := &Snapshot{metas: map[string]*offer{}, byModule: map[string][]*template{}, called: map[string][]*template{}, selected: map[string]bool{}}
	for i := range metas {
		o, err := newOffer(metas[i])
		if err != nil {
			return nil, err
		}
		if first := s.metas[o.meta.Spec.ModuleName]; first == nil || key(&o.meta) < key(&first.meta) {
			s.metas[o.meta.Spec.ModuleName] = o
		}
	}
	for i := range templates {
		t, err := newTemplate(templates[i])
		if err != nil {
			return nil, err
		}
		s.templates = append(s.templates, t)
	}
	slices.SortFunc(s.templates, func(a, b *template) int { return cmp.Compare(key(a), key(b)) })
	hash := sha256.New()
	encoder := json.NewEncoder(hash)
	for _, t := range s.templates {
		if t.module != "" {
			s.byModule[t.module] = append(s.byModule[t.module], t)
		}
		names := []string{t.Labels[v1beta2.LabelModuleName], t.Name, key(t), t.component}
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			if name != "" {
				s.called[name] = append(s.called[name], t)
			}
		}
		if err := encoder.Encode(t.entry); err != nil {
			return nil, err
		}
	}
	for _, name := range s.moduleNames() {
		if err := encoder.Encode(s.metas[name].entry); err != nil {
			return nil, err
		}
		requirements, _ := s.metas[name].selector.Requirements()
		for _, r := range requirements {
			s.selected[r.Key()] = true
		}
	}
	s.Revision = hex.EncodeToString(hash.Sum(nil))[:16]
	return s, nil
}

func newOffer(meta v1beta2.ModuleReleaseMeta) (*offer, error) {
	o := &offer{meta: meta, selector: labels.Everything()}
	if meta.Spec.KymaSelector != nil {
		// A selector that cannot be read selects nobody: showing a module to everybody would be the opposite of what was meant.
		if selector, err := metav1.LabelSelectorAsSelector(meta.Spec.KymaSelector); err == nil {
			o.selector = selector
		} else {
			o.selector = labels.Nothing()
		}
	}
	var err error
	if o.entry, err = entry(&meta.ObjectMeta, meta.Spec); err != nil {
		return nil, err
	}
	o.disclosing, err = disclosing("ModuleReleaseMeta "+key(&meta), o.entry)
	return o, err
}

func newTemplate(object v1beta2.ModuleTemplate) (*template, error) {
	t := &template{ModuleTemplate: object, version: object.Spec.Version, module: object.Spec.ModuleName}
	if t.module == "" {
		t.module = object.Labels[v1beta2.LabelModuleName]
	}
	if inline := bytes.TrimSpace(object.Spec.Descriptor.Raw); !slices.Contains([]string{"", "{}", "null"}, string(inline)) {
		descriptor, err := ocm.Decode(inline)
		if err != nil {
			t.broken = reason("ModuleTemplate %s spec.descriptor: %v", key(&object), err)
		} else {
			t.descriptor, t.component, t.version = &descriptor, descriptor.Name, cmp.Or(t.version, descriptor.Version)
		}
	}
	var err error
	if t.entry, err = entry(&object.ObjectMeta, object.Spec); err != nil {
		return nil, err
	}
	t.disclosing, err = disclosing("ModuleTemplate "+key(&object), t.entry)
	return t, err
}

// private are annotations that mean nothing in another cluster: kubectl's own record, which repeats the whole object, and the commit
// that an object came with, which would make every runtime's catalog another one.
var private = []string{"kubectl.kubernetes.io/last-applied-configuration", v1beta2.AnnotationGitCommit, v1beta2.AnnotationGitDigest}

func entry(meta *metav1.ObjectMeta, spec any) (bundle.CatalogEntry, error) {
	raw, err := json.Marshal(spec)
	if err != nil {
		return bundle.CatalogEntry{}, fmt.Errorf("encode %s/%s: %w", meta.Namespace, meta.Name, err)
	}
	e := bundle.CatalogEntry{Name: meta.Name, Labels: meta.Labels, Spec: raw}
	for name, value := range meta.Annotations {
		if !slices.Contains(private, name) {
			if e.Annotations == nil {
				e.Annotations = map[string]string{}
			}
			e.Annotations[name] = value
		}
	}
	return e, nil
}

func key(object metav1.Object) string { return object.GetNamespace() + "/" + object.GetName() }

func (s *Snapshot) moduleNames() []string {
	names := make([]string, 0, len(s.metas))
	for name := range s.metas {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Lookup gives what a module in a channel means to a Kyma with these labels. The error is a *Reason.
//
// A ModuleReleaseMeta of that name decides; without one the older lookups do: by label, name, namespace/name and component
// name, among templates of the channel.
func (s *Snapshot) Lookup(module, channel string, kyma labels.Set) (Choice, error) {
	version, err := s.Offered(module, channel, kyma)
	if err != nil {
		return Choice{}, err
	}
	return s.At(module, channel, version, kyma)
}

// Offered gives the version that a channel has of a module for a Kyma with these labels, whether or not it can be had. The error is
// a *Reason.
func (s *Snapshot) Offered(module, channel string, kyma labels.Set) (string, error) {
	o := s.metas[module]
	if o == nil {
		choice, err := s.lookupOlder(module, channel, kyma)
		return choice.Version, err
	}
	if err := o.mayAsk(kyma); err != nil {
		return "", err
	}
	for _, c := range o.meta.Spec.Channels {
		if c.Channel == channel && c.Version != "" {
			return c.Version, nil
		}
	}
	return "", reason("module %s: channel %q has no version: add one to ModuleReleaseMeta %s spec.channels", module, channel, key(&o.meta))
}

// At gives what a version of a module in a channel means to a Kyma with these labels, also when the channel has another one by now.
// The error is a *Reason.
func (s *Snapshot) At(module, channel, version string, kyma labels.Set) (Choice, error) {
	o := s.metas[module]
	if o == nil {
		choice, err := s.lookupOlder(module, channel, kyma)
		if err == nil && choice.Version != version {
			return Choice{}, reason("module %s: version %s cannot be had any more: ModuleTemplate %s has %s by now", module, version, key(choice.Template), choice.Version)
		}
		return choice, err
	}
	if err := o.mayAsk(kyma); err != nil {
		return Choice{}, err
	}
	return s.version(o, channel, version)
}

// Pinned gives what a module in one version means to a Kyma with these labels, whatever its channels have. The error is a *Reason.
func (s *Snapshot) Pinned(module, version string, kyma labels.Set) (Choice, error) {
	o := s.metas[module]
	if o == nil {
		return Choice{}, reason("module %s: version %s cannot be asked for without a ModuleReleaseMeta: ask for a channel", module, version)
	}
	if err := o.mayAsk(kyma); err != nil {
		return Choice{}, err
	}
	choice, err := s.version(o, "", version)
	if err != nil && choice.Template == nil {
		return Choice{}, reason("module %s: version %s, which spec.modules pins it to, cannot be had: %v", module, version, err)
	}
	return choice, err
}

// mayAsk tells whether a Kyma may name the module in its spec.
func (o *offer) mayAsk(kyma labels.Set) error {
	module := o.meta.Spec.ModuleName
	if o.disclosing != nil {
		return reason("module %s: %v", module, o.disclosing)
	}
	if hidden := o.hiddenFrom(kyma); hidden != "" {
		return reason("module %s: is not offered to this runtime: %s", module, hidden)
	}
	if o.meta.Spec.Mandatory != nil {
		return reason("module %s: is mandatory and installed without being asked for: remove it from spec.modules", module)
	}
	return nil
}

func (s *Snapshot) version(o *offer, channel, version string) (Choice, error) {
	module := o.meta.Spec.ModuleName
	var found []*template
	for _, t := range s.byModule[module] {
		if t.version == version {
			found = append(found, t)
		}
	}
	if len(found) == 0 {
		for _, t := range s.called[module+"-"+version] {
			if t.Name == module+"-"+version {
				found = append(found, t)
			}
		}
	}
	switch len(found) {
	case 0:
		if channel == "" && o.meta.Spec.Mandatory == nil {
			return Choice{}, reason("there is no ModuleTemplate %s-%s", module, version)
		}
		if channel == "" {
			return Choice{}, reason("module %s: mandatory version %s has no ModuleTemplate: add %s-%s", module, version, module, version)
		}
		return Choice{}, reason("module %s: version %s of channel %q has no ModuleTemplate: add %s-%s", module, version, channel, module, version)
	case 1:
		component := cmp.Or(o.meta.Spec.OcmComponentName, found[0].component)
		if component == "" && found[0].broken == nil {
			return Choice{}, reason("module %s: names no component: set ModuleReleaseMeta %s spec.ocmComponentName", module, key(&o.meta))
		}
		return found[0].choice(Choice{Module: module, Channel: channel, Version: version, Component: component, NamesItself: o.meta.Spec.OcmComponentName == ""})
	}
	return Choice{}, reason("module %s: version %s has two ModuleTemplates: remove %s or %s", module, version, key(found[0]), key(found[1]))
}

func (s *Snapshot) lookupOlder(module, channel string, kyma labels.Set) (Choice, error) {
	named := s.called[module]
	var found []*template
	for _, t := range named {
		if t.Spec.Channel == channel {
			found = append(found, t)
		}
	}
	switch {
	case len(named) == 0:
		return Choice{}, reason("module %s: is unknown: there is neither a ModuleReleaseMeta nor a ModuleTemplate of that name", module)
	case len(found) == 0:
		return Choice{}, reason("module %s: channel %q has no version: no ModuleTemplate of it has that spec.channel", module, channel)
	case len(found) > 1:
		return Choice{}, reason("module %s: channel %q has two ModuleTemplates: remove %s or %s", module, channel, key(found[0]), key(found[1]))
	}
	t := found[0]
	if hidden := hiddenByLabels(t.Labels, kyma); hidden != "" {
		return Choice{}, reason("module %s: is not offered to this runtime: %s", module, hidden)
	}
	if t.broken == nil && (t.component == "" || t.version == "") {
		return Choice{}, reason("module %s: ModuleTemplate %s spec.descriptor: holds no component name and version, and there is no ModuleReleaseMeta", module, key(t))
	}
	return t.choice(Choice{Module: module, Channel: channel, Version: t.version, Component: t.component, NamesItself: true})
}

// choice completes a choice of this template, or says what is wrong with the template itself.
func (t *template) choice(c Choice) (Choice, error) {
	switch d := t.descriptor; {
	case t.disclosing != nil:
		return Choice{}, reason("module %s: %v", c.Module, t.disclosing)
	case t.broken != nil:
		return Choice{}, reason("module %s: %v", c.Module, t.broken)
	case d != nil && d.Name != c.Component:
		return Choice{}, reason("module %s: ModuleTemplate %s spec.descriptor: is of component %s, want %s", c.Module, key(t), d.Name, c.Component)
	case d != nil && d.Version != c.Version:
		return Choice{}, reason("module %s: ModuleTemplate %s spec.descriptor: is of version %s, spec.version is %s", c.Module, key(t), d.Version, c.Version)
	}
	c.Template, c.Descriptor = &t.ModuleTemplate, t.descriptor
	return c, nil
}

func (o *offer) hiddenFrom(kyma labels.Set) string {
	spec := o.meta.Spec
	switch {
	case spec.Beta && kyma[v1beta2.LabelBeta] != v1beta2.True:
		return "it is a beta module and the Kyma is not labelled " + v1beta2.LabelBeta + "=true"
	case spec.Internal && kyma[v1beta2.LabelInternal] != v1beta2.True:
		return "it is an internal module and the Kyma is not labelled " + v1beta2.LabelInternal + "=true"
	case !o.selector.Matches(kyma):
		return "its kymaSelector does not select the Kyma"
	}
	return hiddenByLabels(o.meta.Labels, kyma)
}

func hiddenByLabels(own map[string]string, kyma labels.Set) string {
	for _, label := range []string{v1beta2.LabelBeta, v1beta2.LabelInternal} {
		if own[label] == v1beta2.True && kyma[label] != v1beta2.True {
			return "it is labelled " + label + "=true and the Kyma is not"
		}
	}
	return ""
}

// Mandatory gives the modules that every runtime gets, sorted by name; of several versions the highest. One that is declared
// and cannot be found has an Err: leaving it out would remove it from every runtime.
func (s *Snapshot) Mandatory() []Choice {
	best := map[string]Choice{}
	offerHigher := func(c Choice) {
		if known, ok := best[c.Module]; !ok || c.Err == nil && (known.Err != nil || bundle.Older(known.Version, c.Version)) {
			best[c.Module] = c
		}
	}
	for _, name := range s.moduleNames() {
		o := s.metas[name]
		if o.meta.Spec.Mandatory == nil {
			continue
		}
		choice, err := s.version(o, "", o.meta.Spec.Mandatory.Version)
		if err != nil {
			choice = Choice{Module: name, Err: err}
		}
		offerHigher(choice)
	}
	for _, t := range s.templates {
		if !t.Spec.Mandatory || t.module == "" {
			continue
		}
		choice, err := t.choice(Choice{Module: t.module, Version: t.version, Component: t.component, NamesItself: true})
		if err == nil && t.component == "" {
			err = reason("module %s: ModuleTemplate %s spec.descriptor: holds no component name, and the module is mandatory", t.module, key(t))
		}
		if err != nil {
			choice = Choice{Module: t.module, Err: err}
		}
		offerHigher(choice)
	}
	choices := make([]Choice, 0, len(best))
	for _, c := range best {
		c.Mandatory = true
		choices = append(choices, c)
	}
	slices.SortFunc(choices, func(a, b Choice) int { return cmp.Compare(a.Module, b.Module) })
	return choices
}

// Relevant gives the labels of a Kyma that can make a difference: two Kymas with the same ones are shown the same modules.
func (s *Snapshot) Relevant(kyma map[string]string) map[string]string {
	relevant := map[string]string{}
	for key, value := range kyma {
		if s.selected[key] || key == v1beta2.LabelBeta || key == v1beta2.LabelInternal || key == v1beta2.LabelPurpose {
			relevant[key] = value
		}
	}
	return relevant
}

// Visible gives the catalog that a Kyma with these labels may choose from. Mandatory modules are not for choosing.
func (s *Snapshot) Visible(kyma labels.Set) bundle.Catalog {
	catalog := bundle.Catalog{ModuleTemplates: []bundle.CatalogEntry{}, ModuleReleaseMetas: []bundle.CatalogEntry{}}
	for _, name := range s.moduleNames() {
		if o := s.metas[name]; o.meta.Spec.Mandatory == nil && o.disclosing == nil && o.hiddenFrom(kyma) == "" {
			catalog.ModuleReleaseMetas = append(catalog.ModuleReleaseMetas, o.entry)
		}
	}
	for _, t := range s.templates {
		o := s.metas[t.module]
		hidden := t.disclosing != nil || t.Spec.Mandatory || t.Labels[v1beta2.LabelSync] == v1beta2.False || hiddenByLabels(t.Labels, kyma) != "" || o != nil && (o.meta.Spec.Mandatory != nil || o.hiddenFrom(kyma) != "")
		if !hidden {
			catalog.ModuleTemplates = append(catalog.ModuleTemplates, t.entry)
		}
	}
	return catalog
}

// Offers gives the modules that a Kyma with these labels may choose, by name, with the channels that each has.
func (s *Snapshot) Offers(kyma labels.Set) map[string][]string {
	offers := map[string][]string{}
	for _, name := range s.moduleNames() {
		o := s.metas[name]
		if o.meta.Spec.Mandatory != nil || o.hiddenFrom(kyma) != "" {
			continue
		}
		for _, c := range o.meta.Spec.Channels {
			offers[name] = append(offers[name], c.Channel)
		}
		slices.Sort(offers[name])
	}
	return offers
}

// Reason is why a lookup found nothing, written for people.
type Reason struct{ text string }

func (r *Reason) Error() string { return r.text }

func reason(format string, args ...any) *Reason {
	return &Reason{text: strings.TrimSpace(fmt.Sprintf(format, args...))}
}
