package controller

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
)

const (
	// hearingsInterval is how often a shard tells when its runtimes were heard, while a rollout is under way.
	hearingsInterval = 5 * time.Second
	// hearingsOutdated is after how long without a word from a shard its runtimes may have been heard without the planner's knowing.
	hearingsOutdated = 30 * time.Second
	// shardsTick is how often it is looked whether there is something to tell or to read.
	shardsTick = time.Second
)

// HearingsWriter makes the planner know when a shard's runtimes were heard.
type HearingsWriter func(ctx context.Context, data []byte) error

// hearings tells the planner when the runtimes of a shard were heard, while it has to know.
type hearings struct{ kymas *Kymas }

// Start tells it until the context ends.
func (h hearings) Start(ctx context.Context) error {
	tick := time.NewTicker(shardsTick)
	defer tick.Stop()
	var last time.Time
	told := ""
	for {
		if s := h.kymas.Shard; s.active() && time.Since(last) >= hearingsInterval {
			err := h.tell(ctx, s)
			if err == nil {
				last, told = time.Now(), ""
			} else if text := err.Error(); text != told && ctx.Err() == nil {
				ctrl.LoggerFrom(ctx).Error(err, "failed to tell the planner of rollouts when runtimes were heard: rollouts wait")
				told = text
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (h hearings) tell(ctx context.Context, s *Shard) error {
	data, err := h.kymas.reports.hearings().Encode()
	if err != nil {
		return fmt.Errorf("shard %d: %w", s.Number, err)
	}
	return s.Tell(ctx, data)
}

// hearings returns when runtimes were heard, for another process.
func (r *reports) hearings() shard.Hearings {
	r.mu.Lock()
	began, now := r.began, r.now()
	r.mu.Unlock()
	all := shard.Hearings{At: now, Began: began, Kymas: map[string]shard.Heard{}}
	if began.IsZero() {
		all.Began = now
	}
	r.fleet.Each(func(kyma fleetstate.Key, known *fleetstate.Runtime) {
		if accepted := known.Report.Accepted; accepted != nil {
			all.Kymas[kyma.Name] = shard.NewHeard(accepted.Time, r.past(known.Report.Arrived), accepted.Content.String())
		}
	})
	return all
}

// hearingOf returns when a Kyma's runtime was heard, by its status and by what its shard told, nil for nothing yet: reports.hearing for another process.
// What a shard told long ago, or of a report that the status does not tell yet, decides nothing: the runtime may have been heard since.
func hearingOf(kyma *v1beta2.Kyma, told *shard.Hearings, now time.Time) plan.Hearing {
	heard := plan.Hearing{At: plan.Heard(kyma)}
	if told == nil || now.Sub(told.At) > hearingsOutdated {
		heard.Unnoted = plan.Unnoted(kyma, now)
	}
	if told == nil {
		return heard
	}
	last, known := told.Kymas[kyma.Name]
	if !known {
		if heard.Unnoted.IsZero() {
			heard.Unnoted = plan.Unnoted(kyma, told.Began)
		}
		return heard
	}
	at := plan.HeardIn(kyma, v1beta2.ObservedBundle{Time: metav1.Unix(last.Made, 0), Heard: new(metav1.Unix(last.Arrived, 0))})
	switch status := kyma.Status.Runtime; {
	case !at.After(heard.At):
	case status != nil && status.Observed != nil && last.Says(status.Observed.Report):
		heard.At = at
	case at.After(heard.Unnoted) && !refusedReport(kyma):
		heard.Unnoted = at
	}
	return heard
}
