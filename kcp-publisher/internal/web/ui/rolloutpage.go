package ui

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/rolloutactions"
)

// maxRollouts limits the list of finished rollouts.
const maxRollouts = 50

// rolloutView is the data of a rollout on a page.
type rolloutView struct {
	*fleet.Rollout
	State string
	Waves []waveView
	// Bar shows the whole rollout.
	Bar      []segment
	Ended    bool
	Unshown  int
	MaySteer bool
	// Approvals are the waves that wait for an approval.
	Approvals []string
}

// waveView is the progress of a wave.
type waveView struct {
	v1alpha1.WaveStatus
	State string
	Bar   []segment
	// SoakLeft is the remaining soak time; empty if the wave does not soak.
	SoakLeft string
	// Approve reports whether the wave waits for an approval.
	Approve bool
}

// segment is one part of a bar, before it is scaled.
type segment struct {
	Tone, Name string
	Count      int32
	X, Width   string
}

func segments(total int32, parts ...segment) []segment {
	var shown []segment
	before := int32(0)
	for _, s := range parts {
		if s.Count <= 0 {
			continue
		}
		s.X, s.Width = percent(before, total), percent(s.Count, total)
		before += s.Count
		shown = append(shown, s)
	}
	return shown
}

func viewRollout(r *fleet.Rollout, now time.Time) rolloutView {
	s := r.Status
	v := rolloutView{Rollout: r, State: string(s.State), Ended: rollout.Finished(s.State), Unshown: max(0, int(s.Failed)-len(s.Failures))}
	if v.State == "" {
		v.State = "New"
	}
	if !v.Ended {
		v.Approvals = rolloutactions.Waiting(r.Spec, r.Status)
	}
	var inFlight int32
	for i, wave := range s.Waves {
		w := waveView{WaveStatus: wave, State: string(wave.State), Approve: slices.Contains(v.Approvals, wave.Name)}
		if w.State == "" {
			w.State = string(v1alpha1.WavePending)
		}
		if wave.State == v1alpha1.WaveSoaking && wave.ReadyAt != nil && i < len(r.Spec.Waves) {
			if left := wave.ReadyAt.Add(r.Spec.Waves[i].Soak.Duration).Sub(now); left > 0 {
				w.SoakLeft = strings.TrimPrefix(since(-left-time.Minute), "in ")
			}
		}
		w.Bar = segments(wave.Total, segment{Tone: "good", Name: "updated", Count: wave.Updated}, segment{Tone: "busy", Name: "in flight", Count: wave.InFlight},
			segment{Tone: "bad", Name: "failed", Count: wave.Failed}, segment{Tone: "lost", Name: "deferred", Count: wave.Deferred})
		inFlight += wave.InFlight
		v.Waves = append(v.Waves, w)
	}
	v.Bar = segments(s.Total, segment{Tone: "good", Name: "updated", Count: s.Updated}, segment{Tone: "busy", Name: "in flight", Count: inFlight},
		segment{Tone: "bad", Name: "failed", Count: s.Failed}, segment{Tone: "lost", Name: "deferred", Count: s.Deferred})
	return v
}

// rolloutsPage is the data of the list of rollouts.
type rolloutsPage struct {
	Active, Ended []rolloutView
	More          int
}

func (p *pages) rollouts(w http.ResponseWriter, r asked) {
	var page rolloutsPage
	for i := range r.fleet.Rollouts {
		one := &r.fleet.Rollouts[i]
		if one.Active {
			page.Active = append(page.Active, viewRollout(one, p.Now()))
		} else {
			page.Ended = append(page.Ended, viewRollout(one, p.Now()))
		}
	}
	slices.SortStableFunc(page.Ended, func(a, b rolloutView) int {
		at := func(v rolloutView) time.Time {
			if v.Status.FinishedAt == nil {
				return time.Time{}
			}
			return v.Status.FinishedAt.Time
		}
		return at(b).Compare(at(a))
	})
	page.More = max(0, len(page.Ended)-maxRollouts)
	page.Ended = page.Ended[:min(len(page.Ended), maxRollouts)]
	p.render(w, r, "rollouts", http.StatusOK, frame{Title: "Rollouts", Section: "rollouts", Live: true, Body: page})
}

// done contains the messages after a change, by their names in the address. The address itself carries no text to show.
var done = map[string]string{
	"pause": "The rollout is paused: no further runtime gets the version.", "resume": "The rollout is resumed.", "approve": "The wave is approved.",
}

// rolloutPage is the data of a rollout's page.
type rolloutPage struct {
	rolloutView
	Done, Error string
}

func (p *pages) rollout(w http.ResponseWriter, r asked) {
	p.showRollout(w, r, http.StatusOK, done[r.URL.Query().Get("done")], "")
}

func (p *pages) showRollout(w http.ResponseWriter, r asked, status int, told, trouble string) {
	one := r.findRollout()
	if one == nil {
		p.tell(w, r, http.StatusNotFound, "No such rollout", "No Rollout in namespace "+p.Source.namespace+" is named "+line(100, r.PathValue("name"))+".")
		return
	}
	page := rolloutPage{viewRollout(one, p.Now()), told, trouble}
	if !page.Ended && r.viewer.MaySteer != nil && r.viewer.Steer != nil {
		may, err := r.viewer.MaySteer(r.Context(), p.key(one.Name))
		if err != nil {
			p.Log.Error(err, "failed to check whether a viewer may change a rollout", "viewer", r.viewer.Name, "rollout", one.Name)
		}
		page.MaySteer = may && err == nil
	}
	p.render(w, r, "rollout", status, frame{Title: "Rollout " + line(100, one.Name), Section: "rollouts", Live: true, Body: page})
}

func (r asked) findRollout() *fleet.Rollout {
	for i := range r.fleet.Rollouts {
		if r.fleet.Rollouts[i].Name == r.PathValue("name") {
			return &r.fleet.Rollouts[i]
		}
	}
	return nil
}

func (p *pages) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: p.Source.namespace, Name: name}
}

// steer handles the buttons of a rollout's page.
func (p *pages) steer(w http.ResponseWriter, r asked) {
	one := r.findRollout()
	if one == nil {
		p.rollout(w, r)
		return
	}
	if err := r.ParseForm(); err != nil {
		p.tell(w, r, http.StatusBadRequest, "Cannot read this form", "Go back and try again.")
		return
	}
	action := r.PostForm.Get("action")
	change, err := changeOf(action, line(100, r.PostForm.Get("wave")))
	if err != nil {
		p.showRollout(w, r, http.StatusBadRequest, "", err.Error())
		return
	}
	if r.viewer.MaySteer == nil || r.viewer.Steer == nil {
		p.showRollout(w, r, http.StatusForbidden, "", "You may not change this rollout.")
		return
	}
	may, err := r.viewer.MaySteer(r.Context(), p.key(one.Name))
	if err != nil || !may {
		p.showRollout(w, r, http.StatusForbidden, "", "You may not change this rollout: you need the right to patch it in the control plane.")
		return
	}
	if _, err := r.viewer.Steer(r.Context(), p.key(one.Name), change); err != nil {
		p.showRollout(w, r, http.StatusConflict, "", err.Error())
		return
	}
	p.Log.Info("rollout changed by a viewer", "viewer", r.viewer.Name, "rollout", one.Name, "action", action, "wave", line(100, r.PostForm.Get("wave")))
	http.Redirect(w, r.Request, "/rollouts/"+url.PathEscape(one.Name)+"?done="+action, http.StatusSeeOther)
}

func changeOf(action, wave string) (rolloutactions.Change, error) {
	switch action {
	case "pause", "resume":
		return rolloutactions.Pause(action == "pause"), nil
	case "approve":
		return rolloutactions.Approve(wave), nil
	}
	return nil, errors.New("this page supports pause, resume and approve; use the command line for abort and undo")
}
