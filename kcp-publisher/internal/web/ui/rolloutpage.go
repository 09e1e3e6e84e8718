package ui

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/actions"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/train"
)

const maxRollouts = 50

type rolloutView struct {
	*fleet.Rollout
	State string
	Waves []waveView
	// Checks contains the checks of all waves, in the order of the waves.
	Checks []checkView
	// Bar shows the progress of the whole rollout.
	Bar     []segment
	Ended   bool
	Unshown int
	// Approvals contains the waves that wait for approval.
	Approvals []string
}

type waveView struct {
	v1alpha1.WaveStatus
	State string
	Bar   []segment
	// SoakLeft is the remaining soak time, or empty.
	SoakLeft string
	// Approve is true if the wave waits for approval.
	Approve bool
}

// segment is one part of a bar. The function segments computes X and Width.
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
	v := rolloutView{
		Rollout: r,
		State:   string(s.State),
		Ended:   rollout.IsFinished(s.State),
		Unshown: max(0, int(s.Failed)-len(s.Failures)),
	}
	if v.State == "" {
		v.State = "New"
	}
	if !v.Ended {
		v.Approvals = actions.WaitingWaves(r.Spec, r.Status)
	}
	var inFlight int32
	for i, wave := range s.Waves {
		w := waveView{WaveStatus: wave, State: string(wave.State), Approve: slices.Contains(v.Approvals, wave.Name)}
		if w.State == "" {
			w.State = string(v1alpha1.WavePending)
		}
		if wave.State == v1alpha1.WaveSoaking && wave.ReadyAt != nil && i < len(r.Spec.Waves) {
			if left := wave.ReadyAt.Add(r.Spec.Waves[i].Soak.Duration).Sub(now); left > 0 {
				w.SoakLeft = strings.TrimPrefix(formatAge(-left-time.Minute), "in ")
			}
		}
		w.Bar = segments(
			wave.Total,
			segment{Tone: "good", Name: "updated", Count: wave.Updated},
			segment{Tone: "busy", Name: "in flight", Count: wave.InFlight},
			segment{
				Tone:  "bad",
				Name:  "failed",
				Count: wave.Failed,
			},
			segment{Tone: "lost", Name: "deferred", Count: wave.Deferred},
		)
		inFlight += wave.InFlight
		v.Waves = append(v.Waves, w)
		for _, check := range wave.Checks {
			v.Checks = append(v.Checks, viewCheck(wave.Name, check))
		}
	}
	v.Bar = segments(s.Total, segment{Tone: "good", Name: "updated", Count: s.Updated},
		segment{Tone: "busy", Name: "in flight", Count: inFlight},
		segment{Tone: "bad", Name: "failed", Count: s.Failed}, segment{
			Tone: "lost", Name: "deferred", Count: s.Deferred,
		})
	return v
}

type rolloutsPage struct {
	Active, Ended []rolloutView
	More          int
	Trains        []train.View
	// TrainsProblem is the reason why the PromotionPolicies could not be read, or empty.
	TrainsProblem string
}

func (p *pages) rollouts(w http.ResponseWriter, r pageRequest) {
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
	page.addTrains(p.trains(r.Context()))
	p.render(w, r, "rollouts", http.StatusOK, frame{Title: "Rollouts", Section: "rollouts", Live: true, Body: page})
}

func (p *pages) trains(ctx context.Context) ([]v1alpha1.PromotionPolicy, error) {
	if p.Trains == nil {
		return nil, nil
	}
	return p.Trains(ctx, p.Source.namespace)
}

func (page *rolloutsPage) addTrains(policies []v1alpha1.PromotionPolicy, err error) {
	if err != nil {
		page.TrainsProblem = err.Error()
	}
	for i := range policies {
		page.Trains = append(page.Trains, train.NewView(&policies[i]))
	}
	slices.SortFunc(page.Trains, func(a, b train.View) int { return cmp.Compare(a.Policy, b.Policy) })
}

type rolloutPage struct {
	rolloutView
	Done, Error string
	// Offered contains the actions that are possible and that the viewer may start.
	Offered []pageAction
}

func (p *pages) rollout(w http.ResponseWriter, r pageRequest) {
	p.showRollout(w, r, http.StatusOK, "")
}

func (p *pages) showRollout(w http.ResponseWriter, r pageRequest, status int, trouble string) {
	one := r.findRollout()
	if one == nil {
		p.showMessage(w, r, http.StatusNotFound, "No such rollout",
			"No Rollout in namespace "+p.Source.namespace+" is named "+
				cleanLine(100, r.PathValue("name"))+".")
		return
	}
	page := rolloutPage{rolloutView: viewRollout(one, p.Now()), Done: doneMessages[r.URL.Query().Get("done")],
		Error: trouble}
	if r.viewer.MayChangeRollout != nil && r.viewer.ActOnRollout != nil {
		may, err := r.viewer.MayChangeRollout(r.Context(), p.key(one.Name))
		if err != nil {
			p.Log.Error(err, "failed to check whether a viewer may change a rollout", "viewer", r.viewer.Name,
				"rollout", one.Name)
		}
		if may && err == nil {
			page.Offered = r.rolloutOffers(one)
		}
	}
	p.render(w, r, "rollout", status, frame{
		Title: "Rollout " + cleanLine(100, one.Name), Section: "rollouts", Live: true, Body: page,
	})
}

func (p *pages) actOnRollout(w http.ResponseWriter, r pageRequest) {
	one := r.findRollout()
	if one == nil {
		p.rollout(w, r)
		return
	}
	form, ok := p.readForm(w, r)
	if !ok {
		return
	}
	if r.viewer.MayChangeRollout == nil || r.viewer.ActOnRollout == nil {
		p.showRollout(w, r, http.StatusForbidden, "You may not change this rollout.")
		return
	}
	may, err := r.viewer.MayChangeRollout(r.Context(), p.key(one.Name))
	if err != nil || !may {
		p.showRollout(w, r, http.StatusForbidden,
			"You may not change this rollout: you need permission to patch it in the control plane.")
		return
	}
	var chosen *pageAction
	for _, o := range r.rolloutOffers(one) {
		if o.Name == form.action && o.Wave == form.wave {
			chosen = &o
		}
	}
	address := "/rollouts/" + url.PathEscape(one.Name)
	if chosen == nil {
		p.showRollout(w, r, http.StatusConflict, "This action is not possible in the rollout's current state.")
		return
	}
	effect := "Rollout " + one.Name + " " + chosen.effect + "."
	c := confirmation{
		Heading: chosen.Title + "?", Effect: effect, Button: chosen.Title, Count: int(chosen.Runtimes),
		Address: address, Back: address, Action: form.action, Wave: form.wave,
		Selection: digest.FromString(effect).Encoded(),
	}
	if form.confirmed && form.selection != c.Selection {
		c.Error, form.confirmed = "The rollout changed, so the action now has another effect. Nothing has been changed yet.",
			false
	}
	if !form.confirmed {
		p.confirm(w, r, "rollouts", c)
		return
	}
	result, err := r.viewer.ActOnRollout(r.Context(), p.key(one.Name), chosen.confirmedAction())
	if err != nil {
		p.showRollout(w, r, http.StatusConflict, err.Error())
		return
	}
	p.Log.Info("a viewer changed the rollout", "viewer", r.viewer.Name, "rollout", one.Name, "action", form.action,
		"wave", form.wave)
	p.logUnrecorded(r, result, one.Name)
	http.Redirect(w, r.Request, address+"?done="+form.action, http.StatusSeeOther)
}

func (p *pages) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: p.Source.namespace, Name: name}
}
