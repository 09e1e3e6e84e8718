package plan

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

// Request returns what a Kyma's runtime asks for: what the Kyma says, and what leaves it by the newest report, nil
// without one. The error is of the Kyma's annotations, and means that nothing may be published.
func (r Rules) Request(kyma *v1beta2.Kyma, report *bundle.AcceptedReport) (resolve.Request, error) {
	request, err := asked(kyma)
	request.Settings, request.Watchers, request.Carried = r.Settings, r.Watchers, r.carried(kyma)
	if err != nil && !request.Deleting {
		return request, err
	}
	if request.Maintenance, err = r.Maintenance.Schedule(kyma); err != nil && !request.Deleting {
		return request, err
	}
	request.Settings.Autonomy = r.autonomy(kyma)
	if image, own := kyma.Annotations[v1beta2.AnnotationAgentImage]; own {
		request.Settings.Agent = image
	}
	if request.Settings.Details, err = details(kyma); err != nil && !request.Deleting {
		return request, err
	}
	switch err := request.Settings.Check(); {
	case err != nil && request.Deleting:
		request.Settings = r.Settings // the runtime is told to remove its modules all the same
	case err != nil:
		return request, reason.Errorf(reason.AnnotationInvalid, "annotations: %w", err)
	}
	if request.Values, err = values(kyma); err != nil && !request.Deleting {
		return request, err
	}
	request.NoCatalog = kyma.Labels[v1beta2.LabelSync] == v1beta2.False || kyma.Annotations[v1beta2.AnnotationSyncCatalog] == v1beta2.False
	request.Leaving = leaving(request.Asked, report)
	request.Versions = floors(request.Asked, kyma.Status.Runtime, report)
	request.Running = running(kyma.Status.Runtime, report)
	request.Lacks = lacks(kyma.Status.Runtime, report)
	return request, takeOver(&request, kyma)
}

// carried returns the labels of a Kyma that its runtime gets because the operator says so, nil for none.
func (r Rules) carried(kyma *v1beta2.Kyma) map[string]string {
	var labels map[string]string
	for _, key := range r.KymaLabels {
		value, is := kyma.Labels[key]
		if !is {
			continue
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
	}
	return labels
}

// autonomy returns what a Kyma's runtime may decide by itself.
func (r Rules) autonomy(kyma *v1beta2.Kyma) string {
	if own, is := kyma.Annotations[v1beta2.AnnotationAutonomy]; is {
		return own
	}
	return r.Settings.Autonomy
}

// details returns the details that an operator requests for a runtime's reports.
func details(kyma *v1beta2.Kyma) ([]bundle.Detail, error) {
	var all []bundle.Detail
	for name := range strings.FieldsFuncSeq(kyma.Annotations[v1beta2.AnnotationReportDetails],
		func(r rune) bool { return r == ',' || r == ' ' }) {
		detail := bundle.Detail(name)
		if !slices.Contains(bundle.AllDetails(), detail) {
			return nil, reason.Errorf(reason.AnnotationInvalid, "annotation %s: %s: want some of %v",
				v1beta2.AnnotationReportDetails, bundle.Quote(name, bundle.MaxVersionBytes), bundle.AllDetails())
		}
		all = append(all, detail)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// given returns the versions that a runtime has, by module: those that it was given by what the control plane
// remembers, and what it says itself of modules that it has from before the control plane knew it or lost its memory.
// What it says counts against what is remembered when it tells of a newer bundle, or refuses the remembered one as a
// downgrade: a push can be forgotten in a crash. It also counts for modules that the runtime chose by itself: what it
// took from an offer is no version to go below.
func given(status *v1beta2.RuntimeStatus, report *bundle.AcceptedReport) map[string]string {
	versions := map[string]string{}
	var published *v1beta2.PublishedBundle
	if status != nil && status.Published != nil {
		published = status.Published
		maps.Copy(versions, published.Versions)
	}
	if report == nil {
		return versions
	}
	believed := published != nil && (hasNewer(report, published) || refusesDowngrade(report, published))
	for _, m := range report.Modules {
		// An agent judges bundles by what its Manifests ask for, be it that the version before still runs.
		has := cmp.Or(m.Wanted, m.Version)
		known, ok := versions[m.Name]
		if has != "" && (!ok || (believed || slices.Contains(report.Decided, m.Name)) && bundle.Older(known, has)) {
			versions[m.Name] = has
		}
	}
	return versions
}

// running returns the versions that a runtime still runs because those of the bundle in force are refused there, by
// module. The runtime is believed only about that very bundle: what it says of an older one may be over.
func running(status *v1beta2.RuntimeStatus, report *bundle.AcceptedReport) map[string]string {
	if status == nil || status.Published == nil || report == nil || report.Observed == nil || report.Observed.Digest.String() != status.Published.Digest {
		return nil
	}
	versions := map[string]string{}
	for _, m := range report.Modules {
		if m.State == v1beta2.StateError && !m.Maintenance && m.Version != "" && bundle.Older(m.Version, status.Published.Versions[m.Name]) {
			versions[m.Name] = m.Version
		}
	}
	return versions
}

// hasNewer reports whether a runtime tells of a newer bundle than the one that is remembered.
func hasNewer(report *bundle.AcceptedReport, published *v1beta2.PublishedBundle) bool {
	o := report.Observed
	return o != nil && (o.Epoch > published.Epoch || o.Epoch == published.Epoch && o.Sequence > published.Sequence)
}

// refusesDowngrade reports whether a runtime refused the remembered bundle because it has newer versions.
func refusesDowngrade(report *bundle.AcceptedReport, published *v1beta2.PublishedBundle) bool {
	return slices.ContainsFunc(report.Refused, func(r bundle.RefusedBundle) bool {
		return r.Reason == refusal.Downgrade && r.Digest.String() == published.Digest
	})
}

// floors returns the versions below which a request's modules do not go.
func floors(asked v1beta2.KymaSpec, status *v1beta2.RuntimeStatus, report *bundle.AcceptedReport) map[string]string {
	versions := given(status, report)
	maps.DeleteFunc(versions, func(name, _ string) bool {
		published := status != nil && status.Published != nil && status.Published.Versions[name] != ""
		return !published && !slices.ContainsFunc(asked.Modules, func(module v1beta2.Module) bool { return module.Name == name })
	})
	if len(versions) == 0 {
		return nil
	}
	return versions
}

// asked returns the part of a request that says which modules a Kyma is to have. The error is of the Kyma's
// annotations.
func asked(kyma *v1beta2.Kyma) (resolve.Request, error) {
	request := resolve.Request{Labels: kyma.Labels, Deleting: !kyma.DeletionTimestamp.IsZero()}
	request.ControlPlane = kyma.Labels[v1beta2.LabelControlPlane] == v1beta2.True
	request.NoModuleCopy = kyma.Annotations[v1beta2.AnnotationNoModuleCopy] == v1beta2.True
	if r := kyma.Status.Runtime; r != nil && r.Requested != nil && kyma.Labels[v1beta2.LabelSync] != v1beta2.False {
		request.Asked = r.Requested.Spec
		// A runtime whose Kyma is lost gets what its admin asked for last.
		request.Seed, request.NoModuleCopy = r.Requested.Spec, false
		return request, nil
	}
	spec, err := kyma.Asked()
	request.Asked, request.Seed = spec, spec
	return request, reason.With(reason.PinsInvalid, err)
}

// leaving returns the modules that a runtime has and does not ask for any more.
func leaving(asked v1beta2.KymaSpec, report *bundle.AcceptedReport) (all []v1beta2.Module) {
	if report == nil {
		return nil
	}
	for _, m := range report.Modules {
		if m.Channel != "" && !slices.ContainsFunc(asked.Modules, func(module v1beta2.Module) bool { return module.Name == m.Name }) {
			all = append(all, v1beta2.Module{Name: m.Name, Channel: m.Channel, Managed: true})
		}
	}
	return all
}
