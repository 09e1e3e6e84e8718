// Package upgrade decides which image the agent's own Deployment runs: what the bundle wants and what is known of the
// Deployment go in, what to write comes out. An image has to prove itself by doing the agent's work; one that does not
// is rolled back to the last one that did, as firmware counts its starts: by the old agent where the new one never gets
// ready, and by the new one itself where it ends again and again, at its start, or runs and does not do its work, when
// its time is over. The decisions are pure; Deployment carries them out.
package upgrade

import (
	"cmp"
	"fmt"
	"time"
)

const (
	// MaxStarts is how often a pod may start without its image having proven itself: a node that restarts is forgiven, a
	// crash loop is rolled back after some two minutes.
	MaxStarts = 4
	// Trial is for how long without a break an image has to do the agent's work until it counts as proven.
	Trial = time.Minute
)

// Known is what the Deployment says.
type Known struct {
	// Set is the image of its template, Running that of the pod which asks.
	Set, Running string
	// Proven is the last image that did its work, Failed the one that was rolled back, Starts how often the pod which asks
	// began while Set was not proven.
	Proven, Failed string
	Starts         int
	// Stuck says that the pods of Set do not get ready within the Deployment's progress deadline.
	Stuck bool
}

// Step is what to write; a zero Step nothing.
type Step struct {
	Set, Proven, Failed string
	Starts              int
	// Say is one line for people.
	Say string
}

func (k Known) step() Step {
	return Step{Set: k.Set, Proven: k.Proven, Failed: k.Failed, Starts: k.Starts}
}

// onTrial says that the image which asks is the one that is set, has not proven itself, and has one to go back to.
func (k Known) onTrial() bool { return k.Running == k.Set && k.Proven != "" && k.Proven != k.Set }

// changes reports whether a step differs from what is.
func (k Known) changes(s Step) bool {
	return s.Set != k.Set || s.Proven != k.Proven || s.Failed != k.Failed || s.Starts != k.Starts
}

// Start decides when a pod begins, before it does anything that could end it.
func Start(k Known) Step {
	s := k.step()
	if !k.onTrial() {
		return s
	}
	s.Starts++
	if s.Starts > MaxStarts {
		return k.back(fmt.Sprintf("it ended %d times before it had proven itself", MaxStarts))
	}
	return s
}

// Round decides after a round of the agent that leads. wanted is the bundle's image, empty for none; well is for how
// long without a break all of its rounds were whole: what is in the registry was read and accepted, the runtime was
// made to have it, and a report was delivered.
func Round(k Known, wanted string, well time.Duration) Step {
	s := k.step()
	if k.Running != k.Set {
		// A newer pod is on its way; this one leads until it is ready.
		if k.Stuck && k.Proven != "" {
			return k.back("its pods did not get ready in time")
		}
		return s
	}
	if k.Proven != k.Running {
		if well < Trial {
			return s
		}
		s.Proven, s.Starts = k.Running, 0
		s.Say = fmt.Sprintf("image %s of the agent has proven itself", k.Running)
	}
	if k.Failed != "" && k.Failed != wanted {
		s.Failed = ""
	}
	if wanted != "" && wanted != k.Set && wanted != k.Failed {
		s.Set, s.Starts = wanted, 0
		s.Say = fmt.Sprintf("upgrades the agent from image %s to %s", k.Set, wanted)
	}
	return s
}

// Overdue decides when an agent has led for as long as its image has to prove itself, whatever became of its rounds.
func Overdue(k Known) Step {
	if !k.onTrial() {
		return k.step()
	}
	return k.back("it led and did not do its work for a minute without a break in time")
}

func (k Known) back(why string) Step {
	return Step{Set: k.Proven, Proven: k.Proven, Failed: k.Set, Say: fmt.Sprintf("rolled back image %s of the agent to %s: %s", k.Set, k.Proven, why)}
}

// Problem says why the agent does not run what the bundle wants; empty when it does, or is on its way.
func (k Known) Problem(wanted string) string {
	if wanted == "" || k.Failed != wanted {
		return ""
	}
	return fmt.Sprintf("the agent rolled back its image %s, which did not work, and runs %s", k.Failed, cmp.Or(k.Set, "another"))
}
