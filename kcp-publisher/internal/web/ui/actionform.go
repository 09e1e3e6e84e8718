package ui

import (
	"net/http"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/actions"
)

// doneMessages maps each action to the message that the page shows after it. The page's URL contains only the action,
// so links cannot inject text.
var doneMessages = map[string]string{
	"pause": "The rollout is paused: no further runtimes are updated.", "approve": "The wave is approved.",
	"resume": "Resumed.",
	"abort":  "The rollout is aborted.", "undo": "The rollout is undone: its runtimes are rolled back to the " +
		"earlier version.",
	"retry":   "The rollout is retried: a new rollout begins if the channel still has the version.",
	"suspend": "Suspended: no new bundles are published.", "reconcile": "The publisher reconciles now.",
}

type actionForm struct {
	action, wave, reason string
	confirmed            bool
	// selection is a digest of the runtimes on the confirmation page, or of the action's effect on a rollout.
	selection string
}

// readForm reads a request's form. If it returns false, it has already responded with an error.
func (p *pages) readForm(w http.ResponseWriter, r pageRequest) (actionForm, bool) {
	if err := r.ParseForm(); err != nil {
		p.showMessage(w, r, http.StatusBadRequest, "Cannot read this form", "Go back and try again.")
		return actionForm{}, false
	}
	return actionForm{
		action: r.PostForm.Get("action"), wave: cleanLine(100, r.PostForm.Get("wave")),
		reason:    cleanLine(actions.MaxReasonBytes, r.PostForm.Get("reason")),
		confirmed: r.PostForm.Get("confirmed") == "yes", selection: r.PostForm.Get("selection"),
	}, true
}

// maxNamed is the maximum number of runtimes that a confirmation page lists by name.
const maxNamed = 20

// confirmation is the data for the page that asks for confirmation before an action.
type confirmation struct {
	Heading, Effect string
	// Count is the number of affected runtimes. Names contains the links to the first runtimes.
	Count int
	Names []runtimeLink
	// Selection is a digest of the affected runtimes, or of the action's effect on a rollout. The UI refuses a
	// confirmed action if the digest has changed.
	Selection string
	// Button is the text of the button that confirms.
	Button string
	// Address is the path for the confirmed form. Back is the path of the page to return to.
	Address, Back, Action, Wave string
	// AskReason adds an input field for the reason.
	AskReason bool
	Error     string
}

// More returns the number of affected runtimes that are not in Names.
func (c confirmation) More() int { return c.Count - len(c.Names) }

func (p *pages) confirm(w http.ResponseWriter, r pageRequest, section string, c confirmation) {
	status := http.StatusOK
	if c.Error != "" {
		status = http.StatusConflict
	}
	p.render(w, r, "confirm", status, frame{Title: c.Heading, Section: section, Body: c})
}

// logUnrecorded logs that an action succeeded but its Event could not be created. The viewer may lack the permission to
// create Events.
func (p *pages) logUnrecorded(r pageRequest, result actions.Result, name string) {
	if result.Unrecorded != nil {
		p.Log.Info("failed to create an Event for a viewer's action", "viewer", r.viewer.Name, "object", name, "reason",
			result.Unrecorded.Error())
	}
}
