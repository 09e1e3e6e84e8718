package ingest

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// Event is a Kubernetes Event to emit for a change in a Kyma's status.
type Event struct {
	Warning bool
	// FromReport is true if the runtime's reports can cause any number of these Events.
	FromReport bool
	Reason     string
	Note       string
}

// EventsBetween returns the Events to emit if a Kyma's status changes from before to after.
func EventsBetween(before, after v1beta2.KymaStatus) []Event {
	var all []Event
	was, is := runtimeStatus(before), runtimeStatus(after)
	if is.Key != nil && (was.Key == nil || was.Key.Thumbprint != is.Key.Thumbprint) {
		all = append(all, Event{Reason: v1beta2.ReasonEnrolled, Note: "the runtime enrolled with key " + is.Key.Thumbprint})
	}
	if p := is.Published; p != nil && (was.Published == nil || was.Published.Digest != p.Digest) {
		if changes := describeChanges(bundleVersions(was.Published), p.Versions); changes != "" {
			e := Event{
				Reason: v1beta2.ReasonPublished,
				Note:   fmt.Sprintf("bundle %d%s: %s", p.Sequence, commitText(p.Commit), changes),
			}
			if len(p.RolledBackFrom) > 0 {
				e.Warning, e.Reason = true, v1beta2.ReasonRolledBack
			}
			all = append(all, e)
		}
	}
	applied := describeChanges(installedVersions(before), installedVersions(after))
	switch {
	case after.State == v1beta2.StateReady && before.State != v1beta2.StateReady:
		note := allReady
		if applied != "" {
			note += ": " + applied
		}
		all = append(all, Event{FromReport: true, Reason: v1beta2.ReasonReady, Note: note})
	case isWorsened(before.State, after.State):
		if note := failureText(after); note != "" {
			all = append(all, Event{Warning: true, FromReport: true, Reason: v1beta2.ReasonFailed, Note: note})
		}
	case applied != "":
		all = append(all, Event{FromReport: true, Reason: v1beta2.ReasonApplied, Note: applied})
	}
	return all
}

const shownCommit = 12

func commitText(commit string) string {
	if commit == "" {
		return ""
	}
	return " from commit " + commit[:min(len(commit), shownCommit)]
}

// failureText describes the failure of a runtime, or returns "". It ignores silent runtimes and refused bundles,
// because these have their own Events.
func failureText(status v1beta2.KymaStatus) string {
	ready := meta.FindStatusCondition(status.Conditions, v1beta2.ConditionReady)
	decides := decidingCondition(status.Conditions)
	switch {
	case ready == nil:
		return "the runtime is " + string(status.State)
	case ready.Reason == v1beta2.ReasonPublishFailed:
		return ready.Message
	case plan.IsSilent(status.Conditions):
		return ""
	case decides != nil && decides.Reason == v1beta2.ReasonBundleRefused:
		return failedModule(status)
	}
	return ready.Message
}

func failedModule(status v1beta2.KymaStatus) string {
	for i := range status.Modules {
		if m := &status.Modules[i]; m.State == v1beta2.StateWarning || m.State == v1beta2.StateError {
			return fmt.Sprintf("module %s is %s: %s", m.Name, m.State, m.Message)
		}
	}
	return ""
}

func runtimeStatus(status v1beta2.KymaStatus) v1beta2.RuntimeStatus {
	if status.Runtime == nil {
		return v1beta2.RuntimeStatus{}
	}
	return *status.Runtime
}

func bundleVersions(p *v1beta2.PublishedBundle) map[string]string {
	if p == nil {
		return nil
	}
	return p.Versions
}

func installedVersions(status v1beta2.KymaStatus) map[string]string {
	versions := map[string]string{}
	for i := range status.Modules {
		if m := &status.Modules[i]; m.Version != "" {
			versions[m.Name] = m.Version
		}
	}
	return versions
}

// isWorsened reports whether a state changed to Error, or from a healthy state to Warning.
func isWorsened(before, after v1beta2.State) bool {
	return after == v1beta2.StateError && before != v1beta2.StateError ||
		after == v1beta2.StateWarning && before != v1beta2.StateWarning && before != v1beta2.StateError
}

const maxEventModules = 10

func describeChanges(before, after map[string]string) string {
	var lines []string
	for _, c := range versionChanges(before, after) {
		if c.To == "" {
			lines = append(lines, c.Module+" "+c.From+" removed")
		} else {
			lines = append(lines, c.Module+" "+cmp.Or(c.From, "(none)")+" → "+c.To)
		}
	}
	if more := len(lines) - maxEventModules; more > 0 {
		lines = append(lines[:maxEventModules], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, ", ")
}
