// Package upgrade decides which image the agent's Deployment runs. A new image is proven after it ran for one minute
// without a failure. Otherwise, it is rolled back to the last proven image.
//
// The old agent rolls back if the new Pod never becomes ready. The new agent rolls back if it restarts too often or
// is not proven before the deadline. The decisions are pure, and Deployment applies them.
package upgrade

import (
	"cmp"
	"fmt"
	"time"
)

const (
	// MaxStarts is the maximum number of starts of a Pod with an unproven image. It tolerates a node restart, and
	// ends a crash loop after about two minutes.
	MaxStarts = 4
	// Trial is the time without a failure after which an image is proven.
	Trial = time.Minute
)

// State is the part of the Deployment that this package changes.
type State struct {
	// Set is the image in the template of the Deployment.
	Set string
	// Proven is the last proven image. Failed is the last image that was rolled back. Starts is the number of starts
	// of this Pod while Set is not proven.
	Proven, Failed string
	Starts         int
	// Former contains the digests of replaced images, separated by commas.
	Former string
	// Undecided is an image that was rolled back because the registry failed, so that the image itself can be good.
	// Trials is the number of attempts with this image.
	Undecided string
	Trials    int
	// Requested is the last image that a bundle requested. If Set is a different image, it comes from the Helm chart.
	Requested string
}

// Known is the state of the Deployment and of this Pod.
type Known struct {
	State
	// Running is the image of this Pod.
	Running string
	// Stuck is true if the Pods with image Set exceeded the Deployment's progress deadline.
	Stuck bool
}

// Step is the result of a decision: the new state of the Deployment.
type Step struct {
	State
	// Message is the log line about the change. Empty if nothing changed.
	Message string
}

// onTrial reports whether this Pod runs a new image that is not proven and can be rolled back.
func (k Known) onTrial() bool { return k.Running == k.Set && k.Proven != "" && k.Proven != k.Set }

// Start returns the new state at the start of the agent. Callers must apply it before any work that can crash.
func Start(k Known) Step {
	s := Step{State: k.State}
	if !k.onTrial() {
		return s
	}
	s.Starts++
	if s.Starts > MaxStarts {
		return k.back(fmt.Sprintf("the new image exited %d times before it proved itself", MaxStarts))
	}
	return s
}

// Again returns the new state before the agent restarts itself for a new bootstrap Secret. The restart counts toward
// MaxStarts only if the agent ran for less than Trial.
func Again(k Known, ran time.Duration) Step {
	s := Step{State: k.State}
	if k.onTrial() && s.Starts > 0 && ran >= Trial {
		s.Starts--
	}
	return s
}

// Round returns the new state after a reconciliation of the leading agent. well is the time since the last failure.
func Round(k Known, w Wanted, well time.Duration) Step {
	s, wanted := Step{State: k.State}, w.Image
	if k.Running != k.Set {
		// A Pod with another image is starting. This Pod leads until the other Pod is ready.
		if k.Stuck && k.Proven != "" {
			return k.back("Pods with the new image did not become ready in time")
		}
		return s
	}
	if k.Proven != k.Running {
		if well < Trial {
			return s
		}
		s.Proven, s.Starts = k.Running, 0
		if wanted == "" {
			s.Failed = ""
		}
		s.Message = fmt.Sprintf("the agent's image %s proved itself", k.Running)
	}
	// If the bundle does not set an image, Failed is the image of the Helm chart. Keep it, so that it is not tried
	// again.
	if wanted != "" && k.Failed != wanted {
		s.Failed = ""
	}
	s.forgetUndecided(wanted)
	next := wanted
	if next == "" {
		next = s.Undecided // if the bundle has no image, try the undecided image again
	}
	switch {
	case next == "" || next == k.Set || next == k.Failed || wanted != "" && k.older(w) != "":
	case next == s.Undecided && well < Trial: // the registry must work for one minute before the next try
	default:
		s.Set, s.Failed, s.Starts, s.Former = next, "", 0, k.leaving(next)
		if next == wanted {
			s.Requested = wanted
		}
		s.Message = fmt.Sprintf("upgrading the agent from image %s to %s", k.Set, next)
	}
	return s
}

// forgetUndecided clears Undecided if the Deployment already uses this image, or if the bundle does not request it.
func (s *State) forgetUndecided(wanted string) {
	if s.Undecided == s.Set || s.Undecided != wanted && (wanted != "" || s.Undecided == s.Requested) {
		s.Undecided, s.Trials = "", 0
	}
	if wanted == "" && s.Undecided == "" && s.Proven == s.Set {
		s.Requested = "" // the bundle has no image, so later images come from the chart
	}
}

// Overdue returns the new state at the deadline for a new image that is not proven. unreachable is true if only
// requests to the registry failed.
//
// The new image can be the cause, so the agent returns to the previous image. If the registry works with the previous
// image, the agent tries the new image again, at most maxTrials times.
func Overdue(k Known, unreachable bool) Step {
	if !k.onTrial() {
		return Step{State: k.State}
	}
	trials := 1
	if k.Undecided == k.Set {
		trials += k.Trials
	}
	if unreachable && trials < maxTrials {
		s := k.back("the registry did not work during the trial")
		s.Failed, s.Undecided, s.Trials = k.Failed, k.Set, trials
		return s
	}
	return k.back("the new image did not work for one minute without interruption before the deadline")
}

func (k Known) back(why string) Step {
	return Step{
		State: State{
			Set: k.Proven, Proven: k.Proven, Failed: k.Set, Former: k.without(k.Proven), Requested: k.Requested,
		},
		Message: fmt.Sprintf("rolled back the agent's image %s to %s: %s", k.Set, k.Proven, why),
	}
}

const maxTrials = 4

// Problem returns the reason why the agent does not run the wanted image. It returns "" if the agent runs the image
// or is about to start it.
func (k Known) Problem(w Wanted) string {
	older := k.older(w)
	if k.Undecided != "" && k.Undecided != k.Set && (w.Image == "" || w.Image == k.Undecided) {
		return fmt.Sprintf("the agent returned from its image %s to %s, because the registry did not work during the "+
			"trial; it tries the image again when the registry works", k.Undecided, k.Set)
	}
	if k.Failed == "" || k.Failed == k.Set || w.Image != "" && k.Failed != w.Image {
		return older
	}
	return fmt.Sprintf("the agent rolled back its image %s, which failed, and runs %s", k.Failed,
		cmp.Or(k.Set, "another"))
}
