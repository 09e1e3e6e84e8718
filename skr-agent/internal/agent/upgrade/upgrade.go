// Package upgrade decides which image the agent's Deployment runs. A new image is proven after it has run for one
// minute without a failure. Otherwise, it is rolled back to the last proven image.
//
// The old agent rolls back if the new Pod never becomes ready. The new agent rolls back if it restarts too often or is
// not proven before the deadline. The decisions are pure, and Deployment applies them.
package upgrade

import (
	"cmp"
	"fmt"
	"time"
)

const (
	// maxStarts is the maximum number of times that a Pod with an unproven image can start. This limit tolerates a node
	// restart, and ends a crash loop after about two minutes.
	maxStarts = 4
	// Trial is the time without a failure after which an image is proven.
	Trial = time.Minute
)

// State is the part of the Deployment that this package changes.
type State struct {
	// TemplateImage is the image in the Deployment's template.
	TemplateImage string
	// ProvenImage is the last proven image. FailedImage is the last image that was rolled back. Starts is the number of
	// times that this Pod has started while TemplateImage is not proven.
	ProvenImage, FailedImage string
	Starts                   int
	// FormerDigests contains the digests of replaced images, separated by commas.
	FormerDigests string
	// UndecidedImage is an image that was rolled back while the registry failed. The image itself can be good, so the
	// agent tries it again later. Trials is the number of attempts with this image.
	UndecidedImage string
	Trials         int
	// RequestedImage is the last image that a bundle requested. If TemplateImage is a different image, it comes from
	// the Helm chart.
	RequestedImage string
}

// Snapshot is the state of the Deployment and this Pod.
type Snapshot struct {
	State
	// RunningImage is this Pod's image.
	RunningImage string
	// IsStuck is true if the Pods with TemplateImage exceeded the Deployment's progress deadline.
	IsStuck bool
}

// Step is a decision's result: the Deployment's new state.
type Step struct {
	State
	// Message is the log line about the change. It is empty if nothing changed.
	Message string
}

// isOnTrial reports whether this Pod runs a new image that is not proven and can be rolled back.
func (k Snapshot) isOnTrial() bool {
	return k.RunningImage == k.TemplateImage && k.ProvenImage != "" && k.ProvenImage != k.TemplateImage
}

// onStart returns the new state when the agent starts. Callers must apply it before any work that can crash.
func onStart(k Snapshot) Step {
	s := Step{State: k.State}
	if !k.isOnTrial() {
		return s
	}
	s.Starts++
	if s.Starts > maxStarts {
		return k.rollBack(fmt.Sprintf(
			"the new image exited %d times before it ran for one minute without a failure", maxStarts))
	}
	return s
}

// onRestart returns the new state before the agent restarts itself for a new bootstrap Secret. The restart counts
// toward maxStarts only if the agent ran for less than Trial.
func onRestart(k Snapshot, uptime time.Duration) Step {
	s := Step{State: k.State}
	if k.isOnTrial() && s.Starts > 0 && uptime >= Trial {
		s.Starts--
	}
	return s
}

// onReconciled returns the new state after the leading agent's reconciliation. healthyFor is the time since the last
// failure.
func onReconciled(k Snapshot, w Target, healthyFor time.Duration) Step {
	s, wanted := Step{State: k.State}, w.Image
	if k.RunningImage != k.TemplateImage {
		// A Pod with a different image is starting. This Pod leads until the other Pod is ready. If that image is the
		// proven image, the rollback has already happened.
		if k.IsStuck && k.ProvenImage != "" && k.ProvenImage != k.TemplateImage {
			return k.rollBack("Pods with the new image did not become ready in time")
		}
		return s
	}
	if k.ProvenImage != k.RunningImage {
		if healthyFor < Trial {
			return s
		}
		s.ProvenImage, s.Starts = k.RunningImage, 0
		if wanted == "" {
			s.FailedImage = ""
		}
		s.Message = fmt.Sprintf("the agent's image %s is proven: it ran for one minute without a failure", k.RunningImage)
	}
	// If the bundle does not set an image, FailedImage is the Helm chart's image. Keep it, so that it is not tried
	// again.
	if wanted != "" && k.FailedImage != wanted {
		s.FailedImage = ""
	}
	s.clearUndecided(wanted)
	next := wanted
	if next == "" {
		next = s.UndecidedImage // if the bundle has no image, try the undecided image again
	}
	switch {
	case next == "" || next == k.TemplateImage || next == k.FailedImage || wanted != "" && k.downgradeReason(w) != "":
	case next == s.UndecidedImage && healthyFor < Trial: // the registry must work for one minute before the next try
	default:
		s.TemplateImage, s.FailedImage, s.Starts, s.FormerDigests = next, "", 0, k.formerAfterUpgrade(next)
		if next == wanted {
			s.RequestedImage = wanted
			if k.olderReason(w) != "" {
				// The bundle allows this rollback. The current image is still newer, so the agent may return to it.
				s.FormerDigests = k.formerAfterRollback(next)
			}
		}
		s.Message = fmt.Sprintf("upgrading the agent from image %s to %s", k.TemplateImage, next)
	}
	return s
}

// clearUndecided clears UndecidedImage if the Deployment already uses this image, or if the bundle does not request it.
func (s *State) clearUndecided(wanted string) {
	if s.UndecidedImage == s.TemplateImage || s.UndecidedImage != wanted &&
		(wanted != "" || s.UndecidedImage == s.RequestedImage) {
		s.UndecidedImage, s.Trials = "", 0
	}
	if wanted == "" && s.UndecidedImage == "" && s.ProvenImage == s.TemplateImage {
		s.RequestedImage = "" // the bundle has no image, so later images come from the chart
	}
}

// onDeadline returns the new state if a new image is not proven at its deadline. unreachable is true if the only
// failures were requests to the registry.
//
// The new image can be the cause, so the agent returns to the previous image. If the registry works with the previous
// image, the agent tries the new image again, at most maxTrials times.
func onDeadline(k Snapshot, unreachable bool) Step {
	if !k.isOnTrial() {
		return Step{State: k.State}
	}
	trials := 1
	if k.UndecidedImage == k.TemplateImage {
		trials += k.Trials
	}
	if unreachable && trials < maxTrials {
		s := k.rollBack("the registry did not work during the trial")
		s.FailedImage, s.UndecidedImage, s.Trials = k.FailedImage, k.TemplateImage, trials
		return s
	}
	return k.rollBack("the new image did not work for one minute without interruption before the deadline")
}

func (k Snapshot) rollBack(reason string) Step {
	return Step{
		State: State{
			TemplateImage: k.ProvenImage, ProvenImage: k.ProvenImage, FailedImage: k.TemplateImage,
			FormerDigests: k.formerAfterRollback(k.ProvenImage), RequestedImage: k.RequestedImage,
		},
		Message: fmt.Sprintf("rolled back the agent's image %s to %s: %s", k.TemplateImage, k.ProvenImage, reason),
	}
}

const maxTrials = 4

// problem returns the reason why the agent does not run the wanted image. It returns "" if the agent runs the image
// or is about to start it.
func (k Snapshot) problem(w Target) string {
	older := k.downgradeReason(w)
	if k.UndecidedImage != "" && k.UndecidedImage != k.TemplateImage && (w.Image == "" || w.Image == k.UndecidedImage) {
		return fmt.Sprintf("the agent returned from its image %s to %s, because the registry did not work during the "+
			"trial; it tries the image again when the registry works", k.UndecidedImage, k.TemplateImage)
	}
	if k.FailedImage == "" || k.FailedImage == k.TemplateImage || w.Image != "" && k.FailedImage != w.Image {
		return older
	}
	return fmt.Sprintf("the agent rolled back its image %s, which failed, and runs %s", k.FailedImage,
		cmp.Or(k.TemplateImage, "another"))
}
