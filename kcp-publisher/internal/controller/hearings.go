package controller

import (
	"context"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/silence"
)

const (
	// hearingsInterval is how often a shard tells when its runtimes were heard, while a rollout is under way.
	hearingsInterval = 5 * time.Second
	// hearingsOutdated is after how long without a word from a shard its runtimes may have been heard without the
	// planner's knowing.
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

// lastReportOf returns the time of the last report of a Kyma's runtime, by its status and by what its shard received,
// nil for nothing yet. If the shard has not written for long, or has not asked for the report yet, a report may have
// arrived that is not recorded.
func lastReportOf(kyma *v1beta2.Kyma, received *shard.Hearings, now time.Time) silence.LastReport {
	outdated := received == nil || now.Sub(received.At) > hearingsOutdated
	var since time.Time
	if outdated {
		since = now
	}
	if received == nil {
		return plan.LastReport(kyma, nil, since)
	}
	last, known := received.Kymas[kyma.Name]
	if !known {
		if !outdated {
			since = received.Began
		}
		return plan.LastReport(kyma, nil, since)
	}
	status := kyma.Status.Runtime
	recorded := status != nil && status.Observed != nil && last.Says(status.Observed.Report)
	return plan.LastReport(kyma, &plan.Received{Made: time.Unix(last.Made, 0), Arrived: time.Unix(last.Arrived, 0), Recorded: recorded}, since)
}
