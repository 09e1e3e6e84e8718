package report

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

const (
	// identityBytes is what is kept free for what the agent adds: statement, certificate, a request for one, and its
	// introduction.
	identityBytes = 16 << 10
	// maxPayloadBytes bounds the rest, which grows by a third in base64.
	maxPayloadBytes = bundle.MaxReportBytes/4*3 - identityBytes
	// shortMessageBytes is what a message is cut to before it is left out.
	shortMessageBytes = 96
)

// fit returns the report as it can be delivered: a runtime with too much to say must not fall silent. What is over a
// limit goes first; then, in steps until the rest fits, messages, the objects behind modules, what watchers saw, wishes
// that take most of the room, modules, and at last the wishes: by them the runtime's admin gets out of having too much.
// What is left out is marked, so that nobody takes it for gone.
func fit(r bundle.Report, most int) bundle.Report {
	f := fitting{report: r}
	f.limitModules()
	f.limitWishes()
	f.limitLists()
	for _, step := range []func(){
		func() { f.shortenMessages(shortMessageBytes) },
		func() { f.shortenMessages(0) },
		f.leaveObjectsOut,
		f.leaveListsOut,
		func() {
			if f.wishBytes() > most/2 {
				f.leaveWishesOut()
			}
		},
		func() { f.leaveModulesOut(most) },
		f.leaveWishesOut,
	} {
		if f.bytes() <= most {
			break
		}
		step()
	}
	if f.left != (bundle.Truncated{}) {
		f.report.Truncated = &f.left
	}
	return f.report
}

// fitting is a report on its way to fit. Its lists are its own: those of the facts are not changed.
type fitting struct {
	report bundle.Report
	left   bundle.Truncated
}

func (f *fitting) bytes() int {
	data, err := json.Marshal(f.report)
	if err != nil {
		return 0 // signing it fails in the same way, and says so
	}
	return len(data)
}

// limitModules keeps what a report may say of modules. Two Manifests may name one module: the one in more trouble
// speaks for it.
func (f *fitting) limitModules() {
	modules := slices.Clone(f.report.Modules)
	slices.SortStableFunc(modules, func(a, b bundle.ReportedModule) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(urgency(a), urgency(b)))
	})
	modules = slices.CompactFunc(modules, func(a, b bundle.ReportedModule) bool { return a.Name == b.Name })
	all := len(modules)
	modules = slices.DeleteFunc(modules, func(m bundle.ReportedModule) bool { return len(m.Name) > bundle.MaxModuleNameBytes })
	for i := range modules {
		m := &modules[i]
		m.Wanted = bundle.Bounded(m.Wanted, bundle.MaxVersionBytes)
		m.Version, m.Channel = bundle.Bounded(m.Version, bundle.MaxVersionBytes), bundle.Bounded(m.Channel, bundle.MaxVersionBytes)
		if long(m.Manifest) || long(m.Resource) {
			m.Manifest, m.Resource, f.left.Objects = nil, nil, true
		}
	}
	f.report.Modules = modules
	f.left.Modules = all - len(modules)
	f.keepModules(bundle.MaxManifests)
}

// urgency orders states: what is in trouble is told first.
func urgency(m bundle.ReportedModule) int {
	if at := slices.Index([]v1beta2.State{v1beta2.StateError, v1beta2.StateWarning, v1beta2.StateDeleting, v1beta2.StateProcessing}, m.State); at >= 0 {
		return at
	}
	return 4
}

func long(o *v1beta2.TrackingObject) bool {
	return o != nil && max(len(o.APIVersion), len(o.Kind), len(o.PartialMeta.Name), len(o.PartialMeta.Namespace)) > bundle.MaxModuleNameBytes
}

// keepModules keeps so many modules, those in trouble first.
func (f *fitting) keepModules(most int) {
	over := len(f.report.Modules) - most
	if over <= 0 {
		return
	}
	slices.SortStableFunc(f.report.Modules, func(a, b bundle.ReportedModule) int { return cmp.Compare(urgency(a), urgency(b)) })
	f.report.Modules = f.report.Modules[:most]
	slices.SortFunc(f.report.Modules, func(a, b bundle.ReportedModule) int { return cmp.Compare(a.Name, b.Name) })
	f.left.Modules += over
}

// limitWishes leaves all wishes out where one of them cannot be told: some of them would read as if the rest were not
// wished for any more.
func (f *fitting) limitWishes() {
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
			m.ControllerName = bundle.Bounded(m.ControllerName, bundle.MaxModuleNameBytes) // no label is as long: it stays nobody's
		}
		if len(m.RemoteModuleTemplateRef) > bundle.MaxModuleNameBytes {
			m.RemoteModuleTemplateRef = "" // it has no effect
		}
	}
	if unspeakable {
		f.leaveWishesOut()
	}
}

func (f *fitting) limitLists() {
	if over := func(module string) bool { return len(module) > bundle.MaxModuleNameBytes }; len(f.report.Decided) > bundle.MaxManifests || slices.ContainsFunc(f.report.Decided, over) {
		f.report.Decided, f.left.Lists = nil, true
	}
}

func (f *fitting) shortenMessages(most int) {
	for i := range f.report.Modules {
		if m := &f.report.Modules[i]; len(m.Message) > most {
			m.Message, f.left.Messages = bundle.Bounded(m.Message, most), true
		}
	}
}

func (f *fitting) leaveObjectsOut() {
	for i := range f.report.Modules {
		f.report.Modules[i].Manifest, f.report.Modules[i].Resource = nil, nil
	}
	f.left.Objects = f.left.Objects || len(f.report.Modules) > 0
}

func (f *fitting) leaveListsOut() {
	watched := slices.Clone(f.report.Watched)
	for i := range watched {
		watched[i].Objects = nil
	}
	f.left.Lists = f.left.Lists || len(watched) > 0 || len(f.report.Decided) > 0
	f.report.Watched, f.report.Decided = watched, nil
	if t := f.report.Takeover; t != nil && len(t.Removed) > 0 {
		short := *t
		short.Removed = nil
		f.report.Takeover, f.left.Lists = &short, true
	}
}

func (f *fitting) wishBytes() int {
	data, err := json.Marshal(f.report.Kyma)
	if err != nil {
		return 0 // as in bytes
	}
	return len(data)
}

func (f *fitting) leaveWishesOut() {
	if f.report.Kyma != nil && len(f.report.Kyma.Spec.Modules) > 0 {
		f.left.Asked, f.report.Kyma.Spec.Modules = len(f.report.Kyma.Spec.Modules), nil
	}
}

// leaveModulesOut keeps as many modules as fit.
func (f *fitting) leaveModulesOut(most int) {
	for n := len(f.report.Modules); n > 0 && f.bytes() > most; {
		n -= (n + 9) / 10
		f.keepModules(n)
	}
}
