package resolve

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/window"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
)

// ModuleOutlook is the expected state of a module in one runtime after the next bundle.
type ModuleOutlook struct {
	Module  string
	Channel string // empty if the version is pinned
	// Version is the expected version, or empty if the module is removed.
	Version string
	// HeldReason is the reason why the requested version must wait, such as a closed maintenance window, or empty.
	HeldReason string
}

// placeholderContent is the content of all components in PredictModules, which does not read components.
var placeholderContent = Part{Content: bundle.Content{Digest: digest.FromString("")}}

// PredictModules returns the expected state of each module in a runtime after its next bundle. It does not read
// components. granted maps modules to their current versions in the runtime. If the next bundle removes a module, its
// expected version is empty.
func PredictModules(
	request Request, snapshot *catalog.Snapshot, granted map[string]string, now time.Time,
) []ModuleOutlook {
	request.LastState = &bundle.DesiredState{}
	for module, version := range granted {
		name, err := manifestName(module)
		if err != nil {
			name = module
		}
		request.LastState.Manifests = append(request.LastState.Manifests, bundle.Manifest{
			Name: name, Module: module, Version: version,
		})
	}
	contents := map[ComponentRef]Content{}
	for _, need := range ListNeeds(request, snapshot) {
		contents[need.ComponentRef] = Content{Install: placeholderContent}
	}
	result := Resolve(request, snapshot, contents)
	if request.holdRemovals(granted, result.RequestedNames) {
		result = Resolve(request, snapshot, contents)
	}
	prospects := map[string]ModuleOutlook{}
	for module := range granted {
		prospects[module] = ModuleOutlook{Module: module}
	}
	for _, m := range result.State.Manifests {
		prospects[m.Module] = ModuleOutlook{
			Module: m.Module, Channel: m.Channel, Version: m.Version,
			HeldReason: waitMessage(m, granted[m.Module], request, now),
		}
	}
	for _, problem := range result.State.Problems {
		p := prospects[problem.Module]
		p.Module, p.Channel, p.HeldReason = problem.Module, problem.Channel, problem.Message
		prospects[problem.Module] = p
	}
	for _, held := range slices.Concat(result.HeldProblems, result.Remarks) {
		p := prospects[held.Module]
		p.Module, p.Channel, p.HeldReason = held.Module, held.Channel, held.Message
		prospects[held.Module] = p
	}
	var all []ModuleOutlook
	for _, p := range prospects {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b ModuleOutlook) int { return cmp.Compare(a.Module, b.Module) })
	return all
}

// holdRemovals adds each installed module to WaitingRemovals if a rollout delays the module's removal. It reports
// whether it added a module.
func (r *Request) holdRemovals(granted map[string]string, requested []string) bool {
	r.WaitingRemovals = map[string]string{}
	for module, d := range r.RemovalGates {
		if _, has := granted[module]; has && d.HeldReason != "" && !slices.Contains(requested, module) {
			r.WaitingRemovals[module] = d.HeldReason
		}
	}
	return len(r.WaitingRemovals) > 0
}

// waitMessage returns a message if the upgrade of a module waits for a maintenance window. Otherwise, it returns "".
func waitMessage(m bundle.Manifest, installed string, request Request, now time.Time) string {
	if !m.RequiresDowntime || installed == "" || installed == m.Version || request.Maintenance == nil ||
		request.Maintenance.Early && request.Requested.SkipMaintenanceWindows {
		return ""
	}
	switch span, ahead := request.Maintenance.Next(now); {
	case !ahead && isWindowTooShort(request.Maintenance, now):
		return fmt.Sprintf(
			"the upgrade to version %s requires downtime, and no future maintenance window is open for %s", m.Version,
			request.Maintenance.Minimum.Duration)
	case !ahead:
		return fmt.Sprintf("the upgrade to version %s requires downtime, and the schedule has no later window",
			m.Version)
	case !span.Contains(now):
		return fmt.Sprintf(
			"the upgrade to version %s requires downtime and waits for the maintenance window from %s to %s",
			m.Version, span.Begin.UTC().Format(time.RFC3339), span.End.UTC().Format(time.RFC3339))
	}
	return ""
}

func isWindowTooShort(schedule *window.Schedule, now time.Time) bool {
	_, short := schedule.TooShort(now)
	return short
}
