// Package catalog indexes a control plane's ModuleTemplates and ModuleReleaseMetas. It does not perform I/O and does
// not depend on runtimes.
package catalog

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// Snapshot is the catalog at one point in time. It is safe for concurrent use.
type Snapshot struct {
	// Revision is a hash of the catalog's content. Two catalogs with the same content have the same revision.
	Revision string

	metas     map[string]*moduleOffer // by module name
	templates []*template             // sorted by namespace and name
	byModule  map[string][]*template
	// templatesByName maps each object name, module label, and component name to its ModuleTemplates. Lookups use it
	// for modules without a ModuleReleaseMeta.
	templatesByName map[string][]*template
	// selectorKeys contains every label key that a kymaSelector uses.
	selectorKeys map[string]bool
	// valueRefs contains every reference from a ModuleTemplate to a runtime value.
	valueRefs map[bundle.ValueRef]bool
	// restricted lists the modules that are visible only to Kymas selected by the kymaSelector in the module's
	// ModuleReleaseMeta.
	restricted []string
	// controller limits lookups to ModuleTemplates with this controller name. If it is empty, lookups find all
	// ModuleTemplates.
	controller string
}

type moduleOffer struct {
	meta     v1beta2.ModuleReleaseMeta
	selector labels.Selector
	// parseError is an error in the ModuleReleaseMeta, or nil. If it is set, the module cannot be added to a Kyma, but
	// a runtime that already has the module keeps it.
	parseError error
	// isMandatory is true if one of the module's ModuleReleaseMetas makes the module mandatory. If the module has two
	// of them, parseError is set and meta is only one of them.
	isMandatory    bool
	entry          bundle.CatalogEntry
	size           int   // size of the encoded catalog entry in bytes
	withheldReason error // reason why bundles omit the catalog entry, or nil
}

type template struct {
	v1beta2.ModuleTemplate
	module string // from spec.moduleName or the module label, or empty
	// descriptor is the component descriptor in spec.descriptor, or nil if it is missing or invalid.
	descriptor     *ocm.Descriptor
	parseError     error  // reason why the descriptor in spec.descriptor is invalid, or nil
	component      string // component name in spec.descriptor, or empty
	version        string
	entry          bundle.CatalogEntry
	size           int   // size of the encoded catalog entry in bytes
	withheldReason error // reason why bundles omit the catalog entry, or nil
}

// Choice is the result of a lookup: the ModuleTemplate for a module's version, and its component's name.
type Choice struct {
	Module    string
	Channel   string
	Version   string
	Component string
	Template  *v1beta2.ModuleTemplate
	// Descriptor is the component descriptor in the ModuleTemplate, or nil.
	Descriptor *ocm.Descriptor
	// IsSelfNamed is true if the component name comes only from the descriptor in the ModuleTemplate.
	IsSelfNamed bool
	Mandatory   bool
	// Err is the reason why no version of a mandatory module can be installed. If Err is set, Module and Mandatory are
	// the only other fields that are set.
	Err error
}

// New indexes ModuleTemplates and ModuleReleaseMetas in any order. Modules in restricted are visible only to Kymas
// selected by the kymaSelector in their ModuleReleaseMeta.
func New(
	templates []v1beta2.ModuleTemplate, metas []v1beta2.ModuleReleaseMeta, restricted ...string,
) (*Snapshot, error) {
	s := &Snapshot{restricted: restricted, metas: map[string]*moduleOffer{}, byModule: map[string][]*template{},
		templatesByName: map[string][]*template{}, selectorKeys: map[string]bool{}, valueRefs: map[bundle.ValueRef]bool{}}
	if err := s.addMetas(metas); err != nil {
		return nil, err
	}
	for i := range templates {
		if !templates[i].DeletionTimestamp.IsZero() {
			continue
		}
		t, err := newTemplate(templates[i])
		if err != nil {
			return nil, err
		}
		s.templates = append(s.templates, t)
	}
	slices.SortFunc(s.templates, byKey)
	hash := sha256.New()
	encoder := json.NewEncoder(hash)
	for _, t := range s.templates {
		if t.module != "" {
			s.byModule[t.module] = append(s.byModule[t.module], t)
		}
		names := []string{t.Labels[v1beta2.LabelModuleName], t.Name, objectKey(t), t.component}
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			if name != "" {
				s.templatesByName[name] = append(s.templatesByName[name], t)
			}
		}
		if err := encoder.Encode(t.entry); err != nil {
			return nil, err
		}
		// Ignore the error here: package resolve reports an invalid annotation in the status of each Kyma that uses the
		// ModuleTemplate.
		used, _ := bundle.ParseUsedValues(t.Annotations[v1beta2.AnnotationUsesValues])
		for _, ref := range used {
			s.valueRefs[ref] = true
		}
	}
	for _, name := range s.moduleNames() {
		if err := encoder.Encode(s.metas[name].entry); err != nil {
			return nil, err
		}
		if s.metas[name].parseError != nil { // can depend on a ModuleReleaseMeta that is not in metas
			if err := encoder.Encode(s.metas[name].isMandatory); err != nil {
				return nil, err
			}
		}
		requirements, _ := s.metas[name].selector.Requirements()
		for _, r := range requirements {
			s.selectorKeys[r.Key()] = true
		}
	}
	if err := encoder.Encode(restricted); err != nil {
		return nil, err
	}
	s.Revision = hex.EncodeToString(hash.Sum(nil))[:16]
	return s, nil
}

// addMetas indexes ModuleReleaseMetas by module name. A module with two ModuleReleaseMetas is invalid. It is mandatory
// if one of them makes it mandatory, so that a copy does not uninstall a mandatory module.
func (s *Snapshot) addMetas(metas []v1beta2.ModuleReleaseMeta) error {
	for i := range metas {
		if !metas[i].DeletionTimestamp.IsZero() {
			continue // skip deleted objects that still have finalizers
		}
		o, err := newOffer(metas[i], slices.Contains(s.restricted, metas[i].Spec.ModuleName))
		if err != nil {
			return err
		}
		name := o.meta.Spec.ModuleName
		if first := s.metas[name]; first != nil {
			if objectKey(&first.meta) < objectKey(&o.meta) {
				o, first = first, o
			}
			o.parseError = reason.Errorf(reason.CatalogInvalid,
				"module %s has two ModuleReleaseMetas: remove %s or %s, or correct its spec.moduleName", name,
				objectKey(&o.meta), objectKey(&first.meta))
			o.isMandatory = o.isMandatory || first.isMandatory
		}
		s.metas[name] = o
	}
	return nil
}

func newOffer(meta v1beta2.ModuleReleaseMeta, restricted bool) (*moduleOffer, error) {
	o := &moduleOffer{meta: meta, selector: labels.Everything(), isMandatory: meta.Spec.Mandatory != nil}
	switch by := meta.Spec.KymaSelector; {
	case by == nil && restricted, by != nil && len(by.MatchLabels) == 0 && len(by.MatchExpressions) == 0:
		// Source: lifecycle-manager, internal/service/restrictedmodule. An empty kymaSelector hides the module from all
		// Kymas. A missing kymaSelector hides only a restricted module.
		o.selector = labels.Nothing()
	case by != nil:
		selector, err := metav1.LabelSelectorAsSelector(by)
		if err != nil {
			// If the selector is invalid, hide the module from all Kymas instead of showing it to all.
			selector, o.parseError = labels.Nothing(),
				reason.Errorf(reason.CatalogInvalid, "module %s: ModuleReleaseMeta %s spec.kymaSelector: %v",
					meta.Spec.ModuleName, objectKey(&meta), err)
		}
		o.selector = selector
	}
	var err error
	if o.entry, err = newEntry(&meta.ObjectMeta, meta.Spec); err != nil {
		return nil, err
	}
	o.size, o.withheldReason, err = measureEntry("ModuleReleaseMeta "+objectKey(&meta), o.entry)
	if n := len(meta.Spec.Channels); n > bundle.MaxChannels && o.withheldReason == nil {
		o.withheldReason = fmt.Errorf("ModuleReleaseMeta %s spec.channels: %d channels, must be at most %d", objectKey(&meta),
			n,
			bundle.MaxChannels)
	}
	return o, err
}

func newTemplate(object v1beta2.ModuleTemplate) (*template, error) {
	t := &template{ModuleTemplate: object, version: object.Spec.Version, module: object.Spec.ModuleName}
	if t.module == "" {
		t.module = object.Labels[v1beta2.LabelModuleName]
	}
	if inline := bytes.TrimSpace(object.Spec.Descriptor.Raw); !slices.Contains([]string{"", "{}", "null"},
		string(inline)) {
		descriptor, err := ocm.Decode(inline)
		if err != nil {
			t.parseError = reason.Errorf(reason.CatalogInvalid, "ModuleTemplate %s spec.descriptor: %v", objectKey(&object), err)
		} else {
			t.descriptor, t.component, t.version = &descriptor, descriptor.Name, cmp.Or(t.version, descriptor.Version)
		}
	}
	var err error
	if t.entry, err = newEntry(&object.ObjectMeta, object.Spec); err != nil {
		return nil, err
	}
	t.size, t.withheldReason, err = measureEntry("ModuleTemplate "+objectKey(&object), t.entry)
	return t, err
}

// privateAnnotations lists annotations that catalog entries omit. Some of them change with every Git commit. If catalog
// entries contained them, every commit would change the catalog of every runtime.
var privateAnnotations = []string{
	"kubectl.kubernetes.io/last-applied-configuration", v1beta2.AnnotationGitCommit, v1beta2.AnnotationGitDigest,
	v1beta2.AnnotationPrune,
	v1beta2.AnnotationHoldPromotion,
}

func newEntry(meta *metav1.ObjectMeta, spec any) (bundle.CatalogEntry, error) {
	raw, err := json.Marshal(spec)
	if err != nil {
		return bundle.CatalogEntry{}, fmt.Errorf("encode %s/%s: %w", meta.Namespace, meta.Name, err)
	}
	e := bundle.CatalogEntry{Name: meta.Name, Labels: withoutPrivateLabels(meta.Labels), Spec: raw}
	for name, value := range meta.Annotations {
		if !slices.Contains(privateAnnotations, name) {
			if e.Annotations == nil {
				e.Annotations = map[string]string{}
			}
			e.Annotations[name] = value
		}
	}
	return e, nil
}

// withoutPrivateLabels returns the labels of a ModuleTemplate without LabelHoldPromotion, which stops promotions of its
// version. If catalog entries contained this label, setting it would change the catalog of every runtime.
func withoutPrivateLabels(all map[string]string) map[string]string {
	if _, held := all[v1beta2.LabelHoldPromotion]; !held {
		return all
	}
	public := maps.Clone(all)
	delete(public, v1beta2.LabelHoldPromotion)
	if len(public) == 0 {
		return nil
	}
	return public
}

func byKey(a, b *template) int { return cmp.Compare(objectKey(a), objectKey(b)) }
