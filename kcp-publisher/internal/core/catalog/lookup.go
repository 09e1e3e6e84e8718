package catalog

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// Lookup returns the ModuleTemplate of a module in a channel for a Kyma with these labels. If the module has no
// ModuleReleaseMeta, it returns the ModuleTemplate that has this spec.channel and the module's name. The reason of the
// error is one of reason.Problems.
func (s *Snapshot) Lookup(module, channel string, kyma labels.Set) (Choice, error) {
	version, err := s.Offered(module, channel, kyma)
	if err != nil {
		return Choice{}, err
	}
	return s.At(module, channel, version, kyma)
}

// Has reports whether the catalog has the module, even if it is hidden from some Kymas.
func (s *Snapshot) Has(module string) bool {
	return s.metas[module] != nil || len(s.byAnyName[module]) > 0
}

// HasVersion reports whether the catalog has a ModuleTemplate for this module version, even if it is hidden from some
// Kymas.
func (s *Snapshot) HasVersion(module, version string) bool {
	return len(s.templatesOf(module, version)) > 0
}

// Offered returns the version of a module that a channel offers to a Kyma with these labels. The version may have no
// ModuleTemplate. The reason of the error is one of reason.Problems.
func (s *Snapshot) Offered(module, channel string, kyma labels.Set) (string, error) {
	o := s.metas[module]
	if o == nil {
		choice, err := s.lookupOlder(module, channel, kyma)
		return choice.Version, err
	}
	if err := o.checkRequest(kyma); err != nil {
		return "", err
	}
	if version := o.version(channel); version != "" {
		return version, nil
	}
	return "",
		reason.Errorf(reason.ChannelMissing,
			"module %s: channel %q has no version: add one to ModuleReleaseMeta %s spec.channels", module, channel,
			key(&o.meta))
}

// At returns the ModuleTemplate of a module's version for a Kyma with these labels, even if the channel now offers
// another version. The reason of the error is one of reason.Problems.
func (s *Snapshot) At(module, channel, version string, kyma labels.Set) (Choice, error) {
	o := s.metas[module]
	if o == nil {
		choice, err := s.lookupOlder(module, channel, kyma)
		if err == nil && choice.Version != version {
			return Choice{},
				reason.Errorf(reason.TemplateMissing,
					"module %s: version %s is no longer available: ModuleTemplate %s now has version %s", module,
					version, key(choice.Template), choice.Version)
		}
		return choice, err
	}
	if err := o.checkRequest(kyma); err != nil {
		return Choice{}, err
	}
	return s.shown(o, channel, version, kyma)
}

// Pinned returns the ModuleTemplate of a module's version for a Kyma with these labels. The version can be in any
// channel. The reason of the error is one of reason.Problems.
func (s *Snapshot) Pinned(module, version string, kyma labels.Set) (Choice, error) {
	o := s.metas[module]
	if o == nil {
		return Choice{},
			reason.Errorf(reason.PinUnavailable,
				"module %s: version %s cannot be pinned without a ModuleReleaseMeta: request a channel instead", module,
				version)
	}
	if err := o.checkRequest(kyma); err != nil {
		return Choice{}, err
	}
	choice, err := s.shown(o, "", version, kyma)
	if err != nil && !Hidden(err) {
		return Choice{},
			reason.Errorf(reason.PinUnavailable,
				"module %s: pinned version %s is not available: %v", module, version, err)
	}
	return choice, err
}

// Installed returns the ModuleTemplate of an installed version, even if the channel now offers another version or the
// module is hidden from the Kyma. The reason of the error is one of reason.Problems.
func (s *Snapshot) Installed(module, channel, version string) (Choice, error) {
	if o := s.metas[module]; o != nil {
		if o.withheld != nil {
			return Choice{}, reason.Errorf(reason.CatalogInvalid, "module %s: %v", module, o.withheld)
		}
		choice, err := s.version(o, channel, version)
		choice.Mandatory = o.meta.Spec.Mandatory != nil
		return choice, err
	}
	var found []*template
	for _, t := range s.byAnyName[module] {
		if t.version == version {
			found = append(found, t)
		}
	}
	switch {
	case len(found) == 0:
		return Choice{},
			reason.Errorf(reason.TemplateMissing, "module %s has no ModuleTemplate with version %s", module, version)
	case len(found) > 1:
		inChannel := slices.IndexFunc(found, func(t *template) bool { return t.Spec.Channel == channel })
		found = found[max(0, inChannel):]
	}
	t := found[0]
	if t.broken == nil && t.component == "" {
		return Choice{},
			reason.Errorf(reason.CatalogInvalid,
				"module %s: ModuleTemplate %s spec.descriptor contains no component name, and the module has no "+
					"ModuleReleaseMeta", module, key(t))
	}
	return t.choice(Choice{
		Module: module, Channel: channel, Version: version, Component: t.component, NamesItself: true,
		Mandatory: t.Spec.Mandatory,
	})
}

func (o *offer) checkRequest(kyma labels.Set) error {
	module := o.meta.Spec.ModuleName
	if o.withheld != nil {
		return reason.Errorf(reason.CatalogInvalid, "module %s: %v", module, o.withheld)
	}
	if o.broken != nil {
		return o.broken
	}
	if why := o.hiddenFrom(kyma); why != "" {
		return hidden("module %s: module template not allowed: not offered to this runtime: %s", module, why)
	}
	if o.meta.Spec.Mandatory != nil {
		return reason.Errorf(reason.ModuleNotOffered,
			"module %s is mandatory and installed without a request: remove it from spec.modules", module)
	}
	return nil
}

// shown returns the ModuleTemplate of a module's version. It returns a hiddenError if the labels of the ModuleTemplate
// hide it from the Kyma.
func (s *Snapshot) shown(o *offer, channel, version string, kyma labels.Set) (Choice, error) {
	choice, err := s.version(o, channel, version)
	if err != nil {
		return choice, err
	}
	if why := hiddenByLabels(choice.Template.Labels, kyma); why != "" {
		return Choice{},
			hidden("module %s: version %s: module template not allowed: not offered to this runtime: ModuleTemplate "+
				"%s: %s", choice.Module, version, key(choice.Template), why)
	}
	return choice, nil
}

func (s *Snapshot) version(o *offer, channel, version string) (Choice, error) {
	module := o.meta.Spec.ModuleName
	all := s.templatesOf(module, version)
	if unprovided := s.checkController(module, all); unprovided != nil {
		return Choice{}, unprovided
	}
	found := s.provided(all)
	switch len(found) {
	case 0:
		if channel == "" && o.meta.Spec.Mandatory == nil {
			return Choice{},
				reason.Errorf(reason.TemplateMissing, "ModuleTemplate %s-%s does not exist", module, version)
		}
		if channel == "" {
			return Choice{},
				reason.Errorf(reason.TemplateMissing,
					"module %s: mandatory version %s has no ModuleTemplate: add %s-%s", module, version, module,
					version)
		}
		return Choice{},
			reason.Errorf(reason.TemplateMissing,
				"module %s: version %s of channel %q has no ModuleTemplate: add %s-%s", module, version, channel,
				module, version)
	case 1:
		component := cmp.Or(o.meta.Spec.OcmComponentName, found[0].component)
		if component == "" && found[0].broken == nil {
			return Choice{},
				reason.Errorf(reason.CatalogInvalid,
					"module %s has no component name: set ModuleReleaseMeta %s spec.ocmComponentName", module,
					key(&o.meta))
		}
		return found[0].choice(Choice{
			Module: module, Channel: channel, Version: version, Component: component,
			NamesItself: o.meta.Spec.OcmComponentName == "",
		})
	}
	return Choice{},
		reason.Errorf(reason.TemplateDoubled, "module %s: version %s has two ModuleTemplates: remove %s or %s", module,
			version, key(found[0]), key(found[1]))
}

// lookupOlder looks up a module without a ModuleReleaseMeta. It never returns a hiddenError, because that error would
// uninstall the module, and an operator may be recreating the ModuleReleaseMeta.
func (s *Snapshot) lookupOlder(module, channel string, kyma labels.Set) (Choice, error) {
	named := s.byAnyName[module]
	var found []*template
	for _, t := range named {
		if t.Spec.Channel == channel {
			found = append(found, t)
		}
	}
	if unprovided := s.checkController(module, found); unprovided != nil {
		return Choice{}, unprovided
	}
	found = s.provided(found)
	switch {
	case len(named) == 0:
		return Choice{},
			reason.Errorf(reason.ModuleUnknown,
				"module %s is unknown: no ModuleReleaseMeta or ModuleTemplate has that name", module)
	case len(found) == 0:
		return Choice{},
			reason.Errorf(reason.ChannelMissing,
				"module %s: channel %q has no version: no ModuleTemplate of the module has that spec.channel", module,
				channel)
	case len(found) > 1:
		return Choice{},
			reason.Errorf(reason.TemplateDoubled, "module %s: channel %q has two ModuleTemplates: remove %s or %s",
				module, channel, key(found[0]), key(found[1]))
	}
	t := found[0]
	if why := hiddenByLabels(t.Labels, kyma); why != "" {
		return Choice{},
			reason.Errorf(reason.ModuleNotOffered,
				"module %s: module template not allowed: not offered to this runtime: %s", module, why)
	}
	if slices.Contains(s.restricted, t.module) {
		return Choice{},
			reason.Errorf(reason.ModuleNotOffered,
				"module %s: module template not allowed: not offered to this runtime: it is restricted and has no "+
					"ModuleReleaseMeta whose kymaSelector selects the Kyma", module)
	}
	if t.broken == nil && (t.component == "" || t.version == "") {
		return Choice{},
			reason.Errorf(reason.CatalogInvalid,
				"module %s: ModuleTemplate %s spec.descriptor contains no component name and version, and the module "+
					"has no ModuleReleaseMeta", module, key(t))
	}
	return t.choice(Choice{
		Module: module, Channel: channel, Version: t.version, Component: t.component, NamesItself: true,
	})
}

func (t *template) choice(c Choice) (Choice, error) {
	switch d := t.descriptor; {
	case t.withheld != nil:
		return Choice{}, reason.Errorf(reason.CatalogInvalid, "module %s: %v", c.Module, t.withheld)
	case t.broken != nil:
		return Choice{}, reason.Errorf(reason.CatalogInvalid, "module %s: %v", c.Module, t.broken)
	case d != nil && d.Name != c.Component:
		return Choice{},
			reason.Errorf(reason.CatalogInvalid,
				"module %s: ModuleTemplate %s spec.descriptor has component name %s, must be %s", c.Module, key(t),
				d.Name, c.Component)
	case d != nil && d.Version != c.Version:
		return Choice{},
			reason.Errorf(reason.CatalogInvalid,
				"module %s: ModuleTemplate %s spec.descriptor: version is %s, but spec.version is %s", c.Module, key(t),
				d.Version, c.Version)
	}
	c.Template, c.Descriptor = &t.ModuleTemplate, t.descriptor
	return c, nil
}

// Mandatory returns the highest version of each mandatory module, sorted by module name. If a module has no usable
// ModuleTemplate, Err is set in its Choice.
func (s *Snapshot) Mandatory() []Choice {
	best := map[string]Choice{}
	offerHigher := func(c Choice) {
		if known, ok := best[c.Module]; !ok || c.Err == nil &&
			(known.Err != nil || bundle.Older(known.Version, c.Version)) {
			best[c.Module] = c
		}
	}
	for _, name := range s.moduleNames() {
		o := s.metas[name]
		if o.meta.Spec.Mandatory == nil {
			continue
		}
		choice, err := s.version(o, "", o.meta.Spec.Mandatory.Version)
		if o.broken != nil {
			err = o.broken
		}
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
			err = reason.Errorf(reason.CatalogInvalid,
				"module %s: ModuleTemplate %s spec.descriptor contains no component name, and the module is mandatory",
				t.module, key(t))
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
