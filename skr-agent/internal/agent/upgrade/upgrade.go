// Package upgrade decides which image the agent's Deployment runs. An image must prove itself by doing the agent's
// work. Otherwise it is rolled back to the last proven one: by the old agent if the new one never becomes ready, and by
// the new one itself if it restarts too often or does not do its work before the deadline. The decisions are pure, and
// Deployment applies them.
package upgrade

import (
	"cmp"
	"fmt"
	"time"
)

const (
	// MaxStarts is the number of starts of one Pod before its image must have proven itself. It tolerates a node
	// restart, and rolls back a crash loop after about two minutes.
	MaxStarts = 4
	// Trial is the time of uninterrupted work after which an image counts as proven.
	Trial = time.Minute
)

// Known is the state of the Deployment.
type Known struct {
	// Set is the image of its template, and Running is the image of the deciding Pod.
	Set, Running string
	// Proven is the last proven image, Failed the one that was rolled back, and Starts the number of starts of the
	// deciding Pod while Set was not proven.
	Proven, Failed string
	Starts         int
	// Former are the digests of the images that bundles replaced, separated by commas.
	Former string
	// Stuck reports that the Pods of Set did not become ready within the Deployment's progress deadline.
	Stuck bool
}

// Step is the new state of the Deployment. The zero Step changes nothing.
type Step struct {
	Set, Proven, Failed string
	Starts              int
	Former              string
	// Message is the log line.
	Message string
}

func (k Known) step() Step {
	return Step{Set: k.Set, Proven: k.Proven, Failed: k.Failed, Starts: k.Starts, Former: k.Former}
}

// onTrial reports that the running image is the one that is set, has not proven itself, and has a proven predecessor.
func (k Known) onTrial() bool { return k.Running == k.Set && k.Proven != "" && k.Proven != k.Set }

// changes reports whether a step changes the state.
func (k Known) changes(s Step) bool {
	s.Message = ""
	return s != k.step()
}

// Start decides at the start of a Pod, before any work that could crash it.
func Start(k Known) Step {
	s := k.step()
	if !k.onTrial() {
		return s
	}
	s.Starts++
	if s.Starts > MaxStarts {
		return k.back(fmt.Sprintf("it ended %d times before it proved itself", MaxStarts))
	}
	return s
}

// Again decides before the agent starts itself again after the given time, because its bootstrap Secret changed. That
// start does not count, unless it follows so soon that the image could be in a loop.
func Again(k Known, ran time.Duration) Step {
	s := k.step()
	if k.onTrial() && s.Starts > 0 && ran >= Trial {
		s.Starts--
	}
	return s
}

// Round decides after a round of the leading agent. well is the duration without a failed round: the bundle was read,
// accepted and applied, and a report was delivered.
func Round(k Known, w Wanted, well time.Duration) Step {
	s, wanted := k.step(), w.Image
	if k.Running != k.Set {
		// A newer Pod is starting. This one leads until that one is ready.
		if k.Stuck && k.Proven != "" {
			return k.back("its Pods did not become ready in time")
		}
		return s
	}
	if k.Proven != k.Running {
		if well < Trial {
			return s
		}
		s.Proven, s.Starts = k.Running, 0
		s.Message = fmt.Sprintf("the agent's image %s proved itself", k.Running)
	}
	if k.Failed != "" && k.Failed != wanted {
		s.Failed = ""
	}
	if wanted != "" && wanted != k.Set && wanted != k.Failed && k.older(w) == "" {
		s.Set, s.Starts, s.Former = wanted, 0, k.leaving(wanted)
		s.Message = fmt.Sprintf("upgrading the agent from image %s to %s", k.Set, wanted)
	}
	return s
}

// Overdue decides at the deadline for the proof, independent of the rounds.
func Overdue(k Known) Step {
	if !k.onTrial() {
		return k.step()
	}
	return k.back("it did not work for a minute without interruption before its deadline")
}

func (k Known) back(why string) Step {
	return Step{
		Set:     k.Proven,
		Proven:  k.Proven,
		Failed:  k.Set,
		Former:  k.without(k.Proven),
		Message: fmt.Sprintf("rolled back the agent's image %s to %s: %s", k.Set, k.Proven, why),
	}
}

// Problem returns the reason why the agent does not run the wanted image, "" if it does or is starting.
func (k Known) Problem(w Wanted) string {
	if w.Image == "" || k.Failed != w.Image {
		return k.older(w)
	}
	return fmt.Sprintf("the agent rolled back its image %s, which failed, and runs %s", k.Failed,
		cmp.Or(k.Set, "another"))
}
