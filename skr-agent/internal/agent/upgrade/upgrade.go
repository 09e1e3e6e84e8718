// Package upgrade decides which image the agent's Deployment runs. A new image must prove itself by working without
// failure. Otherwise it is rolled back to the last proven image. The old agent rolls back if the new Pod never becomes
// ready. The new agent rolls back itself if it restarts too often or does not work before the deadline. The decisions
// are pure, and Deployment applies them.
package upgrade

import (
	"cmp"
	"fmt"
	"time"
)

const (
	// MaxStarts is the maximum number of starts of a Pod with an unproven image. The value tolerates a node restart,
	// and ends a crash loop after about two minutes.
	MaxStarts = 4
	// Trial is the time without a failed round after which an image is proven.
	Trial = time.Minute
)

// State is the part of the Deployment that the functions of this package change.
type State struct {
	// Set is the image in the template of the Deployment.
	Set string
	// Proven is the last image that proved itself. Failed is the last image that was rolled back. Starts is the number
	// of starts of this Pod while Set is not proven.
	Proven, Failed string
	Starts         int
	// Former contains the digests of the images that bundles replaced, separated by commas.
	Former string
	// Undecided is an image whose last trial ended because the registry did not work. Trials is the number of trials of
	// this image that ended for this reason.
	Undecided string
	Trials    int
	// Requested is the last image that the agent set because a bundle requested it. Other images come from the chart.
	Requested string
}

// Known is the state of the Deployment and of this Pod.
type Known struct {
	State
	// Running is the image of this Pod.
	Running string
	// Stuck is true if the Pods of Set did not become ready within the Deployment's progress deadline.
	Stuck bool
}

// Step is the new state of the Deployment.
type Step struct {
	State
	// Message is the log line.
	Message string
}

// onTrial reports whether the running image is the image in the template, is not proven, and has a proven predecessor.
func (k Known) onTrial() bool { return k.Running == k.Set && k.Proven != "" && k.Proven != k.Set }

// Start returns the step at the start of the agent. It must run before any work that can crash.
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

// Again returns the step before the agent restarts itself because its bootstrap Secret changed. This restart does not
// count toward MaxStarts if the agent ran for at least Trial. After a shorter time it counts, because the image could
// be in a loop of restarts.
func Again(k Known, ran time.Duration) Step {
	s := Step{State: k.State}
	if k.onTrial() && s.Starts > 0 && ran >= Trial {
		s.Starts--
	}
	return s
}

// Round returns the step after a round of the leading agent. well is the time without a failed round. A round fails if
// it could not read, accept or apply the bundle, or could not deliver a report.
func Round(k Known, w Wanted, well time.Duration) Step {
	s, wanted := Step{State: k.State}, w.Image
	if k.Running != k.Set {
		// A Pod with another image is starting. This Pod leads until the other one is ready.
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
	if wanted != "" && k.Failed != wanted { // if the bundle has no image, keep the failed image of the chart
		s.Failed = ""
	}
	s.forgetUndecided(wanted)
	next := wanted
	if next == "" {
		next = s.Undecided // the bundle has no image, so try the chart's undecided image again
	}
	switch {
	case next == "" || next == k.Set || next == k.Failed || wanted != "" && k.older(w) != "":
	case next == s.Undecided && well < Trial: // the registry has not worked for the time of a trial yet
	default:
		s.Set, s.Failed, s.Starts, s.Former = next, "", 0, k.leaving(next)
		if next == wanted {
			s.Requested = wanted
		}
		s.Message = fmt.Sprintf("upgrading the agent from image %s to %s", k.Set, next)
	}
	return s
}

// forgetUndecided drops an undecided image that is set already or that the bundle does not want. If the bundle wants no
// image, only the chart's image stays.
func (s *State) forgetUndecided(wanted string) {
	if s.Undecided == s.Set || s.Undecided != wanted && (wanted != "" || s.Undecided == s.Requested) {
		s.Undecided, s.Trials = "", 0
	}
	if wanted == "" && s.Undecided == "" && s.Proven == s.Set {
		s.Requested = "" // a later image, even the same one, comes from the chart
	}
}

// Overdue returns the step at the deadline for a new image to prove itself. unreachable is true if only requests to the
// registry failed during the trial. The new image can be the reason, so the agent returns to the previous image. It
// tries the new image again when the previous image can use the registry, because the owner of the registry could
// otherwise keep all agents at an old release. It tries an image at most maxTrials times.
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

// maxTrials limits the trials of one image.
const maxTrials = 4

// Problem returns the reason why the agent does not run the wanted image or the image of an upgraded chart. It returns
// "" if the agent runs the image or is about to start it.
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
