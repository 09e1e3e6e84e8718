package catalog

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// Lookup returns the ModuleTemplate that a channel offers for a module to a Kyma with these labels. For a module
// without a ModuleReleaseMeta, it looks for a ModuleTemplate with the same spec.channel. The error's reason is one of
// reason.Problems.
func (s *Snapshot) Lookup(module, channel string, kyma labels.Set) (Choice, error) {
	version, err := s.OfferedVersion(module, channel, kyma)
	if err != nil {
		return Choice{}, err
	}
	return s.LookupVersion(module, channel, version, kyma)
}

// HasModule reports whether the catalog has the module, even if it is hidden from some Kymas.
func (s *Snapshot) HasModule(module string) bool {
	return s.metas[module] != nil || len(s.templatesByName[module]) > 0
}

// HasVersion reports whether the catalog has a ModuleTemplate for this module version, even if it is hidden from some
// Kymas.
func (s *Snapshot) HasVersion(module, version string) bool {
	return len(s.listTemplates(module, version)) > 0
}

// OfferedVersion returns the version of a module that a channel offers to a Kyma with these labels. It does not check
// that the version has a ModuleTemplate. The error's reason is one of reason.Problems.
func (s *Snapshot) OfferedVersion(module, channel string, kyma labels.Set) (string, error) {
	o := s.metas[module]
	if o == nil {
		choice, err := s.lookupWithoutMeta(module, channel, kyma)
		return choice.Version, err
	}
	if err := o.checkRequest(kyma); err != nil {
		return "", err
	}
	if version := o.channelVersion(channel); version != "" {
		return version, nil
	}
	if err := o.checkChannel(channel); err != nil {
		return "", err
	}
	return "",
		reason.Errorf(reason.ChannelMissing,
			"module %s: channel %q has no version: add one to ModuleReleaseMeta %s spec.channels", module, channel,
			objectKey(&o.meta))
}

// LookupVersion returns the ModuleTemplate of a module version that is visible to a Kyma with these labels. The channel
// can offer a different version by now. The error's reason is one of reason.Problems.
func (s *Snapshot) LookupVersion(module, channel, version string, kyma labels.Set) (Choice, error) {
	o := s.metas[module]
	if o == nil {
		choice, err := s.lookupWithoutMeta(module, channel, kyma)
		if err == nil && choice.Version != version {
			return Choice{},
				reason.Errorf(reason.TemplateMissing,
					"module %s: version %s is no longer available: ModuleTemplate %s now has version %s", module,
					version, objectKey(choice.Template), choice.Version)
		}
		return choice, err
	}
	if err := cmp.Or(o.checkRequest(kyma), o.checkChannel(channel)); err != nil {
		return Choice{}, err
	}
	return s.lookupVisible(o, channel, version, kyma)
}

// LookupPinned returns the ModuleTemplate of a pinned module version that is visible to a Kyma with these labels. The
// version does not need to be in a channel. The error's reason is one of reason.Problems.
func (s *Snapshot) LookupPinned(module, version string, kyma labels.Set) (Choice, error) {
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
	choice, err := s.lookupVisible(o, "", version, kyma)
	if err != nil && !IsHidden(err) {
		return Choice{},
			reason.Errorf(reason.PinUnavailable,
				"module %s: pinned version %s is not available: %v", module, version, err)
	}
	return choice, err
}

// LookupInstalled returns the ModuleTemplate of an installed version, even if the channel now offers a different
// version or the module is hidden from the Kyma. The error's reason is one of reason.Problems.
func (s *Snapshot) LookupInstalled(module, channel, version string) (Choice, error) {
	if o := s.metas[module]; o != nil {
		if o.withheldReason != nil {
			return Choice{}, reason.Errorf(reason.CatalogInvalid, "module %s: %v", module, o.withheldReason)
		}
		choice, err := s.findVersion(o, channel, version)
		choice.Mandatory = o.isMandatory
		return choice, err
	}
	var found []*template
	for _, t := range s.templatesByName[module] {
		if t.version == version {
			found = append(found, t)
		}
	}
	switch {
	case len(found) == 0:
		return Choice{},
			reason.Errorf(reason.TemplateMissing, "module %s has no ModuleReleaseMeta, and no ModuleTemplate with its name "+
				"has version %s: create the ModuleReleaseMeta", module, version)
	case len(found) > 1:
		inChannel := slices.IndexFunc(found, func(t *template) bool { return t.Spec.Channel == channel })
		found = found[max(0, inChannel):]
	}
	t := found[0]
	if t.parseError == nil && t.component == "" {
		return Choice{},
			reason.Errorf(reason.CatalogInvalid,
				"module %s: ModuleTemplate %s spec.descriptor contains no component name, and the module has no "+
					"ModuleReleaseMeta", module, objectKey(t))
	}
	return t.newChoice(Choice{
		Module: module, Channel: channel, Version: version, Component: t.component, IsSelfNamed: true,
		Mandatory: t.Spec.Mandatory,
	})
}

func (o *moduleOffer) checkRequest(kyma labels.Set) error {
	module := o.meta.Spec.ModuleName
	if o.withheldReason != nil {
		return reason.Errorf(reason.CatalogInvalid, "module %s: %v", module, o.withheldReason)
	}
	if o.parseError != nil {
		return o.parseError
	}
	if why := o.hiddenReason(kyma); why != "" {
		return newHiddenError("module %s: module template not allowed: not offered to this runtime: %s", module, why)
	}
	if o.isMandatory {
		return reason.Errorf(reason.ModuleNotOffered,
			"module %s is mandatory and installed without a request: remove it from spec.modules", module)
	}
	return nil
}

// checkChannel returns a hiddenError if the ModuleReleaseMeta does not contain the channel and requires removing the
// module in this case. A pinned or mandatory module has no channel.
func (o *moduleOffer) checkChannel(channel string) error {
	if channel == "" || o.channelVersion(channel) != "" ||
		o.meta.Annotations[v1beta2.AnnotationMissingChannel] != v1beta2.MissingChannelRemove {
		return nil
	}
	return newHiddenError("module %s: channel %q does not contain the module", o.meta.Spec.ModuleName, channel)
}

// lookupVisible returns the ModuleTemplate of a module's version. It returns a hiddenError if the ModuleTemplate's
// labels hide it from the Kyma.
func (s *Snapshot) lookupVisible(o *moduleOffer, channel, version string, kyma labels.Set) (Choice, error) {
	choice, err := s.findVersion(o, channel, version)
	if err != nil {
		return choice, err
	}
	if why := labelHiddenReason(choice.Template.Labels, kyma); why != "" {
		return Choice{},
			newHiddenError("module %s: version %s: module template not allowed: not offered to this runtime: ModuleTemplate "+
				"%s: %s", choice.Module, version, objectKey(choice.Template), why)
	}
	return choice, nil
}

func (s *Snapshot) findVersion(o *moduleOffer, channel, version string) (Choice, error) {
	module := o.meta.Spec.ModuleName
	all := s.listTemplates(module, version)
	if unprovided := s.checkController(module, all); unprovided != nil {
		return Choice{}, unprovided
	}
	found := s.filterByController(all)
	switch len(found) {
	case 0:
		if channel == "" && !o.isMandatory {
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
				"module %s: version %s in channel %q has no ModuleTemplate: add %s-%s", module, version, channel,
				module, version)
	case 1:
		component := cmp.Or(o.meta.Spec.OcmComponentName, found[0].component)
		if component == "" && found[0].parseError == nil {
			return Choice{},
				reason.Errorf(reason.CatalogInvalid,
					"module %s has no component name: set ModuleReleaseMeta %s spec.ocmComponentName", module,
					objectKey(&o.meta))
		}
		return found[0].newChoice(Choice{
			Module: module, Channel: channel, Version: version, Component: component,
			IsSelfNamed: o.meta.Spec.OcmComponentName == "",
		})
	}
	return Choice{},
		reason.Errorf(reason.TemplateDoubled, "module %s: version %s has two ModuleTemplates: remove %s or %s", module,
			version, objectKey(found[0]), objectKey(found[1]))
}

// lookupWithoutMeta looks up a module without a ModuleReleaseMeta. It never returns a hiddenError, because the
// publisher uninstalls a module after a hiddenError. The ModuleReleaseMeta might be missing only for a short time,
// while an operator recreates it.
func (s *Snapshot) lookupWithoutMeta(module, channel string, kyma labels.Set) (Choice, error) {
	named := s.templatesByName[module]
	var found []*template
	for _, t := range named {
		if t.Spec.Channel == channel {
			found = append(found, t)
		}
	}
	if unprovided := s.checkController(module, found); unprovided != nil {
		return Choice{}, unprovided
	}
	found = s.filterByController(found)
	switch {
	case len(named) == 0:
		return Choice{},
			reason.Errorf(reason.ModuleUnknown,
				"module %s is unknown: no ModuleReleaseMeta or ModuleTemplate has that name", module)
	case len(found) == 0:
		return Choice{},
			reason.Errorf(reason.ChannelMissing,
				"module %s: channel %q has no version: no ModuleTemplate for the module has this spec.channel", module,
				channel)
	case len(found) > 1:
		return Choice{},
			reason.Errorf(reason.TemplateDoubled, "module %s: channel %q has two ModuleTemplates: remove %s or %s",
				module, channel, objectKey(found[0]), objectKey(found[1]))
	}
	t := found[0]
	if why := labelHiddenReason(t.Labels, kyma); why != "" {
		return Choice{},
			reason.Errorf(reason.ModuleNotOffered,
				"module %s: module template not allowed: not offered to this runtime: %s", module, why)
	}
	if o := s.metas[t.module]; o != nil {
		// A request that uses an alias must not bypass the visibility rules in the module's ModuleReleaseMeta.
		if err := o.checkRequest(kyma); err != nil {
			return Choice{},
				reason.Errorf(reason.ModuleNotOffered, "module %s is an alias for a module that is not available: %v",
					module, err)
		}
	}
	if slices.Contains(s.restricted, t.module) {
		return Choice{},
			reason.Errorf(reason.ModuleNotOffered,
				"module %s: module template not allowed: not offered to this runtime: it is restricted and has no "+
					"ModuleReleaseMeta whose kymaSelector selects the Kyma", module)
	}
	if t.parseError == nil && (t.component == "" || t.version == "") {
		return Choice{},
			reason.Errorf(reason.CatalogInvalid,
				"module %s: ModuleTemplate %s spec.descriptor contains no component name and version, and the module "+
					"has no ModuleReleaseMeta", module, objectKey(t))
	}
	return t.newChoice(Choice{
		Module: module, Channel: channel, Version: t.version, Component: t.component, IsSelfNamed: true,
	})
}

func (t *template) newChoice(c Choice) (Choice, error) {
	switch d := t.descriptor; {
	case t.withheldReason != nil:
		return Choice{}, reason.Errorf(reason.CatalogInvalid, "module %s: %v", c.Module, t.withheldReason)
	case t.parseError != nil:
		return Choice{}, reason.Errorf(reason.CatalogInvalid, "module %s: %v", c.Module, t.parseError)
	case d != nil && d.Name != c.Component:
		return Choice{},
			reason.Errorf(reason.CatalogInvalid,
				"module %s: ModuleTemplate %s spec.descriptor has component name %s, must be %s", c.Module, objectKey(t),
				d.Name, c.Component)
	case d != nil && d.Version != c.Version:
		return Choice{},
			reason.Errorf(reason.CatalogInvalid,
				"module %s: ModuleTemplate %s spec.descriptor: version is %s, but spec.version is %s", c.Module, objectKey(t),
				d.Version, c.Version)
	}
	c.Template, c.Descriptor = &t.ModuleTemplate, t.descriptor
	return c, nil
}

// MandatoryModules returns the highest version of each mandatory module, sorted by module name. If a module has no
// usable ModuleTemplate, Err is set in its Choice.
func (s *Snapshot) MandatoryModules() []Choice {
	best := map[string]Choice{}
	offerHigher := func(c Choice) {
		if known, ok := best[c.Module]; !ok || c.Err == nil &&
			(known.Err != nil || bundle.IsOlder(known.Version, c.Version)) {
			best[c.Module] = c
		}
	}
	for _, name := range s.moduleNames() {
		o := s.metas[name]
		if !o.isMandatory {
			continue
		}
		choice, err := Choice{}, o.parseError
		if err == nil {
			choice, err = s.findVersion(o, "", o.meta.Spec.Mandatory.Version)
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
		choice, err := t.newChoice(Choice{Module: t.module, Version: t.version, Component: t.component, IsSelfNamed: true})
		if err == nil && t.component == "" {
			err = reason.Errorf(reason.CatalogInvalid,
				"module %s: ModuleTemplate %s spec.descriptor contains no component name, and the module is mandatory",
				t.module, objectKey(t))
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
