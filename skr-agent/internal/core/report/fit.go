package report

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

const (
	// identityBytes is the size that a report reserves for fields that the agent adds later, such as its certificate.
	identityBytes = 16 << 10
	// maxPayloadBytes is the maximum size of a report before the agent adds the fields that identityBytes covers.
	// Base64 encoding makes the signed report a third larger.
	maxPayloadBytes   = bundle.MaxReportBytes/4*3 - identityBytes
	shortMessageBytes = 96
	maxDetailBytes    = 64 << 10
)

// shrinkToFit shortens a report that is larger than maxBytes. Otherwise, the control plane would refuse the report. The
// report lists its omitted parts, so that the control plane does not treat them as deleted.
func shrinkToFit(r bundle.Report, maxBytes int) bundle.Report {
	f := shortener{report: r}
	f.limitModules()
	f.limitRequests()
	f.limitLists()
	f.limitDetails(maxDetailBytes)
	for _, step := range []func(){
		func() { f.limitDetails(0) },
		func() { f.report.CheckRun, f.omitted.Details = nil, f.omitted.Details || f.report.CheckRun != nil },
		func() { f.shortenMessages(shortMessageBytes) },
		func() { f.shortenMessages(0) },
		f.omitObjects,
		f.omitLists,
		func() {
			if f.requestBytes() > maxBytes/2 {
				f.omitRequests()
			}
		},
		func() { f.omitModules(maxBytes) },
		f.omitRequests,
	} {
		if f.size() <= maxBytes {
			break
		}
		step()
	}
	if f.omitted != (bundle.Truncated{}) {
		f.report.Truncated = &f.omitted
	}
	return f.report
}

// shortener is a report that is being shortened. The field omitted records the omitted parts.
type shortener struct {
	report  bundle.Report
	omitted bundle.Truncated
}

func (f *shortener) size() int {
	data, err := json.Marshal(f.report)
	if err != nil {
		return 0 // ignore the error, because signing the report returns it too
	}
	return len(data)
}

// limitModules limits the number of modules and the length of their fields. If two Manifests belong to the same module,
// it keeps the Manifest with the more urgent state.
func (f *shortener) limitModules() {
	modules := slices.Clone(f.report.Modules)
	slices.SortStableFunc(modules, func(a, b bundle.ReportedModule) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(urgency(a), urgency(b)))
	})
	modules = slices.CompactFunc(modules, func(a, b bundle.ReportedModule) bool { return a.Name == b.Name })
	all := len(modules)
	modules = slices.DeleteFunc(modules, func(m bundle.ReportedModule) bool {
		return len(m.Name) > bundle.MaxModuleNameBytes
	})
	for i := range modules {
		m := &modules[i]
		m.Wanted = bundle.Bounded(m.Wanted, bundle.MaxVersionBytes)
		m.Version, m.Channel = bundle.Bounded(m.Version, bundle.MaxVersionBytes),
			bundle.Bounded(m.Channel, bundle.MaxVersionBytes)
		if exceedsLimits(m.Manifest) || exceedsLimits(m.Resource) {
			m.Manifest, m.Resource, f.omitted.Objects = nil, nil, true
		}
	}
	f.report.Modules = modules
	f.omitted.Modules = all - len(modules)
	f.limitModuleCount(bundle.MaxManifests)
}

// urgency returns the rank for a module's state. 0 is the most urgent.
func urgency(m bundle.ReportedModule) int {
	if at := slices.Index([]v1beta2.State{v1beta2.StateError, v1beta2.StateWarning, v1beta2.StateDeleting,
		v1beta2.StateProcessing}, m.State); at >= 0 {
		return at
	}
	return 4
}

func exceedsLimits(o *v1beta2.TrackingObject) bool {
	return o != nil &&
		max(len(o.APIVersion), len(o.Kind), len(o.PartialMeta.Name),
			len(o.PartialMeta.Namespace)) > bundle.MaxModuleNameBytes
}

// limitModuleCount removes the least urgent modules if the report has too many.
func (f *shortener) limitModuleCount(maxModules int) {
	over := len(f.report.Modules) - maxModules
	if over <= 0 {
		return
	}
	slices.SortStableFunc(f.report.Modules, func(a, b bundle.ReportedModule) int {
		return cmp.Compare(urgency(a), urgency(b))
	})
	f.report.Modules = f.report.Modules[:maxModules]
	slices.SortFunc(f.report.Modules, func(a, b bundle.ReportedModule) int { return cmp.Compare(a.Name, b.Name) })
	f.omitted.Modules += over
}

// limitRequests omits the complete list of requested modules if one of its entries exceeds a limit. In a partial list,
// the control plane would treat missing modules as removed.
func (f *shortener) limitRequests() {
	if f.report.Kyma == nil {
		return
	}
	kyma := *f.report.Kyma
	f.report.Kyma = &kyma
	kyma.Spec.Modules = slices.Clone(kyma.Spec.Modules)
	unspeakable := len(kyma.Spec.Modules) > bundle.MaxManifests
	for i := range kyma.Spec.Modules {
		m := &kyma.Spec.Modules[i]
		unspeakable = unspeakable || len(m.Name) > bundle.MaxModuleNameBytes
		if len(m.ControllerName) > bundle.MaxModuleNameBytes {
			// Both the full and the shortened name are too long for a label value, so neither of them selects a
			// controller.
			m.ControllerName = bundle.Bounded(m.ControllerName, bundle.MaxModuleNameBytes)
		}
		if len(m.RemoteModuleTemplateRef) > bundle.MaxModuleNameBytes {
			m.RemoteModuleTemplateRef = "" // clear it; this field of the Kyma has no effect
		}
	}
	if unspeakable {
		f.omitRequests()
	}
}

func (f *shortener) limitLists() {
	if over := func(module string) bool {
		return len(module) > bundle.MaxModuleNameBytes
	}; len(f.report.Decided) > bundle.MaxManifests ||
		slices.ContainsFunc(f.report.Decided, over) {
		f.report.Decided, f.omitted.Lists = nil, true
	}
}

func (f *shortener) shortenMessages(maxBytes int) {
	for i := range f.report.Modules {
		if m := &f.report.Modules[i]; len(m.Message) > maxBytes {
			m.Message, f.omitted.Messages = bundle.Bounded(m.Message, maxBytes), true
		}
		results := slices.Clone(f.report.Modules[i].Checks)
		for at := range results {
			if c := &results[at]; len(c.Message) > maxBytes {
				c.Message, f.omitted.Messages = bundle.Bounded(c.Message, maxBytes), true
			}
		}
		f.report.Modules[i].Checks = results
	}
}

func (f *shortener) omitObjects() {
	for i := range f.report.Modules {
		f.report.Modules[i].Manifest, f.report.Modules[i].Resource = nil, nil
	}
	f.omitted.Objects = f.omitted.Objects || len(f.report.Modules) > 0
}

func (f *shortener) omitLists() {
	watched := slices.Clone(f.report.Watched)
	for i := range watched {
		watched[i].Objects = nil
	}
	f.omitted.Lists = f.omitted.Lists || len(watched) > 0 || len(f.report.Decided) > 0
	f.report.Watched, f.report.Decided = watched, nil
	if t := f.report.Takeover; t != nil && len(t.Removed) > 0 {
		short := *t
		short.Removed = nil
		f.report.Takeover, f.omitted.Lists = &short, true
	}
}

func (f *shortener) requestBytes() int {
	data, err := json.Marshal(f.report.Kyma)
	if err != nil {
		return 0 // ignore the error, because signing the report returns it too
	}
	return len(data)
}

func (f *shortener) omitRequests() {
	if f.report.Kyma != nil && len(f.report.Kyma.Spec.Modules) > 0 {
		f.omitted.Requested, f.report.Kyma.Spec.Modules = len(f.report.Kyma.Spec.Modules), nil
	}
}

// omitModules removes the least urgent modules until the report fits.
func (f *shortener) omitModules(maxBytes int) {
	for n := len(f.report.Modules); n > 0 && f.size() > maxBytes; {
		n -= (n + 9) / 10
		f.limitModuleCount(n)
	}
}
