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

// Prospect is the state that a module in one runtime is expected to have after the next bundle.
type Prospect struct {
	Module  string
	Channel string // empty if the version is pinned
	// Version is the expected version, or empty if the module is removed.
	Version string
	// Held is the reason why the requested version must wait, such as a closed maintenance window, or empty.
	Held string
}

// placeholder replaces the content of components, because Outlook does not read components.
var placeholder = Part{Content: bundle.Content{Digest: digest.FromString("")}}

// Outlook returns the expected state of each module in a runtime. It does not read components. granted contains the
// runtime's current versions. If a module will be removed, its Prospect has an empty version.
func Outlook(request Request, snapshot *catalog.Snapshot, granted map[string]string, now time.Time) []Prospect {
	request.Last = &bundle.DesiredState{}
	for module, version := range granted {
		name, err := manifestName(module)
		if err != nil {
			name = module
		}
		request.Last.Manifests = append(request.Last.Manifests, bundle.Manifest{
			Name: name, Module: module, Version: version,
		})
	}
	contents := map[Ref]Content{}
	for _, need := range Needs(request, snapshot) {
		contents[need.Ref] = Content{Install: placeholder}
	}
	result := Resolve(request, snapshot, contents)
	prospects := map[string]Prospect{}
	for module := range granted {
		prospects[module] = Prospect{Module: module}
	}
	for _, m := range result.State.Manifests {
		prospects[m.Module] = Prospect{
			Module: m.Module, Channel: m.Channel, Version: m.Version, Held: waits(m, granted[m.Module], request, now),
		}
	}
	for _, problem := range result.State.Problems {
		p := prospects[problem.Module]
		p.Module, p.Channel, p.Held = problem.Module, problem.Channel, problem.Message
		prospects[problem.Module] = p
	}
	for _, held := range slices.Concat(result.Held, result.Remarks) {
		p := prospects[held.Module]
		p.Module, p.Channel, p.Held = held.Module, held.Channel, held.Message
		prospects[held.Module] = p
	}
	var all []Prospect
	for _, p := range prospects {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Prospect) int { return cmp.Compare(a.Module, b.Module) })
	return all
}

// waits returns a message if the upgrade of a module waits for a maintenance window. Otherwise, it returns "".
func waits(m bundle.Manifest, has string, request Request, now time.Time) string {
	if !m.RequiresDowntime || has == "" || has == m.Version || request.Maintenance == nil ||
		request.Maintenance.Early && request.Asked.SkipMaintenanceWindows {
		return ""
	}
	switch span, ahead := request.Maintenance.Next(now); {
	case !ahead && tooShort(request.Maintenance, now):
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

func tooShort(schedule *window.Schedule, now time.Time) bool {
	_, short := schedule.TooShort(now)
	return short
}
