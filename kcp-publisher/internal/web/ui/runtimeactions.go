package ui

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/actions"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

const (
	maxSelected = 500
	actedAtOnce = 8
	// actTimeout is the timeout of an action. The action continues if the browser disconnects.
	actTimeout = 2 * time.Minute
)

// runtimeAction is one action on runtimes, with the texts for its confirmation page.
type runtimeAction struct {
	Name, Title, effect string
	askReason           bool
	action              func(reason string, now time.Time) actions.Runtime
}

var runtimeActions = []runtimeAction{
	{
		"reconcile",
		"Reconcile",
		"The publisher reconciles now: it reads the report, checks the registry, and publishes a bundle if one is due.",
		false,
		func(_ string, now time.Time) actions.Runtime { return actions.Reconcile(now) },
	},
	{
		"suspend",
		"Suspend",
		"No new bundles are published until an operator resumes. The agent continues to apply the published bundle " +
			"and to correct drift.",
		true,
		func(reason string, _ time.Time) actions.Runtime { return actions.Suspend(reason) },
	},
	{
		"resume",
		"Resume",
		"The publisher resumes publishing.",
		false,
		func(string, time.Time) actions.Runtime { return actions.Resume() },
	},
}

// appliesTo reports whether the action is useful for runtimes with this health. A suspended runtime can only be
// resumed.
func (a runtimeAction) appliesTo(health fleet.Health) bool {
	return (health == fleet.Suspended) == (a.Name == "resume")
}

func runtimeOffers(health fleet.Health) []runtimeAction {
	return slices.DeleteFunc(slices.Clone(runtimeActions), func(a runtimeAction) bool { return !a.appliesTo(health) })
}

func kymaKey(r *fleet.Runtime) client.ObjectKey {
	return client.ObjectKey{Namespace: r.Namespace, Name: r.Kyma}
}

// mayAct reports whether the viewer is permitted to change a Kyma, or all Kymas in the namespace if the key's name is
// empty.
func (p *pages) mayAct(r pageRequest, kyma client.ObjectKey) bool {
	if r.viewer.MayAct == nil || r.viewer.Act == nil {
		return false
	}
	may, err := r.viewer.MayAct(r.Context(), kyma)
	if err != nil {
		p.Log.Error(err, "failed to check whether a viewer may change a Kyma", "viewer", r.viewer.Name, "kyma", kyma)
	}
	return may && err == nil
}

// actOnSelection performs an action on all runtimes that match the query in the page's address.
func (p *pages) actOnSelection(w http.ResponseWriter, r pageRequest) {
	q := parseQuery(r.URL.Query())
	q.Group = ""
	var selected []*fleet.Runtime
	for _, i := range r.fleet.worstFirst {
		if one := &r.fleet.Runtimes[i]; q.matches(one, r.fleet.keys[i]) {
			selected = append(selected, one)
		}
	}
	if len(selected) == 0 || r.progress != nil {
		p.showMessage(w, r, http.StatusConflict, "No runtime matches", "The filter no longer matches any runtime.")
		return
	}
	p.performAction(w, r, client.ObjectKey{Namespace: p.Source.namespace}, selected, q.actAddress(), q.address())
}

// performAction responds with a confirmation page, and performs the action when the user posts the confirmed form.
// The parameter right identifies the Kymas that the viewer must be permitted to patch.
func (p *pages) performAction(
	w http.ResponseWriter, r pageRequest, right client.ObjectKey, selected []*fleet.Runtime, address, back string,
) {
	form, ok := p.readForm(w, r)
	if !ok {
		return
	}
	at := slices.IndexFunc(runtimeActions, func(a runtimeAction) bool { return a.Name == form.action })
	switch {
	case at < 0:
		p.showMessage(w, r, http.StatusBadRequest, "Unknown action",
			"This page supports reconcile, suspend and resume.")
		return
	case !p.mayAct(r, right):
		p.showMessage(w, r, http.StatusForbidden, "You may not change runtimes",
			"You need permission to patch Kymas in namespace "+p.Source.namespace+" of the control plane.")
		return
	}
	chosen := runtimeActions[at]
	selected = slices.DeleteFunc(slices.Clone(selected), func(one *fleet.Runtime) bool {
		return !chosen.appliesTo(one.Health)
	})
	switch {
	case len(selected) == 0:
		text := "All selected runtimes are suspended. Resume them first."
		if chosen.appliesTo(fleet.Suspended) {
			text = "None of the selected runtimes is suspended."
		}
		p.showMessage(w, r, http.StatusConflict, "No runtime to "+chosen.Name, text)
		return
	case len(selected) > maxSelected:
		p.showMessage(
			w,
			r,
			http.StatusConflict,
			"Too many runtimes",
			fmt.Sprintf(
				"The filter selects %d runtimes, and this page changes at most %d at once. Add a filter, or use "+
					"kcp-publisher %s with --selector or --all.",
				len(selected),
				maxSelected,
				form.action,
			),
		)
		return
	}
	c := confirmation{
		Heading: chosen.Title + " " + runtimeCount(len(selected), r.fleet.link(selected[0]).Text) + "?",
		Effect:  chosen.effect, Button: chosen.Title, Count: len(selected), Selection: selectionDigest(selected),
		Address: address, Back: back, Action: form.action, AskReason: chosen.askReason,
	}
	for _, one := range selected[:min(len(selected), maxNamed)] {
		c.Names = append(c.Names, r.fleet.link(one))
	}
	if form.confirmed && form.selection != c.Selection {
		c.Error = fmt.Sprintf("The selection changed and now has %s. Nothing has been changed yet.",
			runtimeCount(len(selected), r.fleet.link(selected[0]).Text))
		form.confirmed = false
	}
	if !form.confirmed {
		p.confirm(w, r, "fleet", c)
		return
	}
	failed := p.actOn(r, selected, chosen.action(form.reason, p.Now()))
	p.Log.Info("runtimes changed by a viewer", "viewer", r.viewer.Name, "action", form.action, "runtimes",
		len(selected), "failed", len(failed))
	if len(failed) > 0 {
		p.render(
			w,
			r,
			"acted",
			http.StatusConflict,
			frame{
				Title:   "Some runtimes failed",
				Section: "fleet",
				Body:    actionFailures{chosen.Title, len(selected) - len(failed), len(selected), failed, back},
			},
		)
		return
	}
	to, _ := url.Parse(back) // query.address or url.PathEscape created this address
	values := to.Query()
	values.Set("done", form.action)
	to.RawQuery = values.Encode()
	http.Redirect(w, r.Request, to.String(), http.StatusSeeOther)
}

// selectionDigest returns a digest of the selected runtimes. A confirmed form contains the digest, so that the action
// fails if the filter now selects other runtimes.
func selectionDigest(selected []*fleet.Runtime) string {
	keys := make([]string, len(selected))
	for i, one := range selected {
		keys[i] = kymaKey(one).String()
	}
	slices.Sort(keys)
	return digest.FromString(strings.Join(keys, "\n")).Encoded()
}

func runtimeCount(n int, name string) string {
	if n == 1 {
		return "runtime " + cleanLine(80, name)
	}
	return strconv.Itoa(n) + " runtimes"
}

// actionFailures is the data for the page after an action that failed for some runtimes.
type actionFailures struct {
	Title       string
	Done, Total int
	Failed      []failure
	Back        string
}

type failure struct {
	Runtime runtimeLink
	Error   string
}

// actOn performs the action on the selected runtimes, and returns the failures, sorted by runtime.
func (p *pages) actOn(r pageRequest, selected []*fleet.Runtime, action actions.Runtime) []failure {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), actTimeout)
	defer cancel()
	var lock sync.Mutex
	var failed []failure
	var group errgroup.Group
	group.SetLimit(actedAtOnce)
	for _, one := range selected {
		group.Go(func() error {
			result, err := r.viewer.Act(ctx, kymaKey(one), action)
			lock.Lock()
			defer lock.Unlock()
			if err != nil {
				failed = append(failed, failure{r.fleet.link(one), err.Error()})
			} else {
				p.logUnrecorded(r, result, one.Kyma)
			}
			return nil
		})
	}
	_ = group.Wait() // failed contains the errors
	slices.SortFunc(failed, func(a, b failure) int { return strings.Compare(a.Runtime.Text, b.Runtime.Text) })
	return failed
}
