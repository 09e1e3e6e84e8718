// Package maintenance decides which upgrades wait for the runtime's maintenance window. Its input is the last
// accepted bundle, the runtime's Kyma and the time. Its output is a Gate with the reason for each waiting upgrade.
// The package is pure.
package maintenance

import (
	"fmt"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// Gate decides which upgrades wait. With the zero value, no upgrade waits.
type Gate struct {
	// OpensAt is the time at which waiting upgrades can start. It is zero if no upgrade must wait, or if no start time
	// is known.
	OpensAt time.Time

	// waitText is the second part of the message about a waiting upgrade. The first part is "the upgrade to version X
	// requires downtime and" or, if isFrozen is true, "the change to version X". waitText is "" if upgrades do not have
	// to wait.
	waitText string
	// hasNoWindow is true if no future maintenance window is long enough.
	hasNoWindow bool
	// isFrozen is true if the bundle must not change versions.
	isFrozen bool
	// unmanaged contains the unmanaged modules' installed versions. The key is the module's name.
	unmanaged map[string]string
}

// New returns the gate for the last accepted bundle b. frozen is the reason why the bundle must not change versions, or
// "" if the bundle can change them. kyma is nil if the runtime's Kyma does not exist yet. unmanaged is the result of
// UnmanagedVersions. now must not be before the newest verified statement's time.
func New(b *bundle.Bundle, frozen string, kyma *v1beta2.Kyma, unmanaged map[string]string, now time.Time) Gate {
	if b == nil {
		return Gate{}
	}
	if frozen != "" {
		return Gate{unmanaged: unmanaged, isFrozen: true, waitText: "waits for a newer bundle, because " + frozen}
	}
	if b.State.Maintenance == nil {
		return Gate{}
	}
	spec := b.State.Kyma.Spec
	if kyma != nil {
		spec = kyma.Spec
	}
	schedule := b.State.Maintenance
	if schedule.Early && spec.SkipMaintenanceWindows {
		return Gate{}
	}
	window, ahead := schedule.Next(now)
	at, wrong := requestedStart(kyma)
	chosen, from := schedule.CheckChosen(at, now)
	if ahead && window.Contains(now) || chosen {
		return Gate{}
	}
	gate := Gate{unmanaged: unmanaged}
	wayOut := "from the operator of the control plane"
	if schedule.Early {
		wayOut += ", or set spec.skipMaintenanceWindows in the runtime's Kyma"
	}
	switch short, is := schedule.TooShort(now); {
	case is:
		gate.hasNoWindow = true
		gate.waitText = fmt.Sprintf(
			"has no future maintenance window of at least %s (the window from %s to %s is too short): request a "+
				"longer window "+wayOut,
			schedule.Minimum.Duration,
			formatTime(short.Begin),
			formatTime(short.End),
		)
	case !ahead:
		gate.hasNoWindow = true
		gate.waitText = "has no future maintenance window: request one " + wayOut
	default:
		gate.OpensAt, gate.waitText = window.Begin,
			fmt.Sprintf("waits for the maintenance window from %s to %s", formatTime(window.Begin), formatTime(window.End))
		switch {
		case !schedule.Early:
		case wrong != nil:
			gate.waitText += fmt.Sprintf(" (%v)", wrong)
		case !from.IsZero():
			gate.OpensAt = from
			gate.waitText = fmt.Sprintf(
				"starts at %s, as the runtime's admin chose, or at the latest in the maintenance window from %s to %s",
				formatTime(from), formatTime(window.Begin), formatTime(window.End))
		default:
			gate.waitText += ", or for an earlier time in annotation " + v1beta2.AnnotationUpgradeAt +
				" of the runtime's Kyma"
		}
	}
	return gate
}

// requestedStart returns the start time for upgrades that the runtime's admin set in an annotation on the Kyma. It
// returns zero if the annotation does not exist.
func requestedStart(kyma *v1beta2.Kyma) (time.Time, error) {
	if kyma == nil || kyma.Annotations[v1beta2.AnnotationUpgradeAt] == "" {
		return time.Time{}, nil
	}
	text := kyma.Annotations[v1beta2.AnnotationUpgradeAt]
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{},
			fmt.Errorf("annotation %s: %q: must be a time such as 2026-11-21T21:00:00Z", v1beta2.AnnotationUpgradeAt,
				bundle.Bounded(text, 64))
	}
	return at, nil
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// BlocksUpgrade reports whether upgrading an installed module to the bundle's version must wait. Removals and drift
// correction never wait. Downgrades do not wait for a window either, because the control plane requests a downgrade
// only to roll back a failed version.
func (g Gate) BlocksUpgrade(installed *v1beta2.Manifest, want bundle.Manifest) bool {
	return installed.DeletionTimestamp.IsZero() && g.blocks(installed.Spec.Version, want)
}

// BlocksInstall reports whether a module without a Manifest must wait. If the bundle must not change versions, every
// managed module without a Manifest waits, because the bundle can contain other content for a version that is already
// installed. Otherwise, only an unmanaged module that becomes managed can wait, like any upgrade.
func (g Gate) BlocksInstall(want bundle.Manifest) bool {
	if g.isFrozen {
		return !want.Unmanaged
	}
	version, unmanaged := g.unmanaged[want.Module]
	return unmanaged && g.blocks(version, want)
}

// BlocksUpgradeBeforeRemoval reports whether a module must be removed in its installed version. Otherwise, the agent
// can upgrade the module during its removal, because a newer operator may be needed to remove finalizers. Maintenance
// windows do not delay removals.
func (g Gate) BlocksUpgradeBeforeRemoval() bool { return g.isFrozen }

func (g Gate) blocks(version string, want bundle.Manifest) bool {
	if g.isFrozen {
		return !want.Unmanaged && version != want.Version
	}
	return g.waitText != "" && want.RequiresDowntime && !want.Unmanaged && version != want.Version &&
		!bundle.IsOlder(want.Version, version)
}

// Reason returns WindowMissing if no future maintenance window is long enough, and WindowAwaited otherwise.
func (g Gate) Reason() reason.Reason {
	if g.hasNoWindow {
		return reason.WindowMissing
	}
	return reason.WindowAwaited
}

// WaitingUpgrades returns a message for users for each module whose upgrade waits. The key is the module's name.
func (g Gate) WaitingUpgrades(b *bundle.Bundle, installed []v1beta2.Manifest) map[string]string {
	waiting := map[string]string{}
	if b == nil || b.Statement.Predicate.Deleting {
		return waiting
	}
	byName := map[string]*v1beta2.Manifest{}
	for i := range installed {
		byName[installed[i].Name] = &installed[i]
	}
	for _, want := range b.State.Manifests {
		text := fmt.Sprintf("the upgrade to version %s requires downtime and %s", want.Version, g.waitText)
		if g.isFrozen {
			text = fmt.Sprintf("the change to version %s %s", want.Version, g.waitText)
		}
		_, unmanaged := g.unmanaged[want.Module]
		switch have := byName[want.Name]; {
		case have != nil && g.BlocksUpgrade(have, want), have == nil && !unmanaged && g.BlocksInstall(want):
			waiting[want.Module] = text
		case have == nil && g.BlocksInstall(want):
			waiting[want.Module] = text + "; the module stays unmanaged until then"
		}
	}
	return waiting
}
