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
	reportTimesInterval = 5 * time.Second
	// reportTimesMaxAge is the maximum age of a shard's report times. If they are older, the shard's runtimes may
	// have sent newer reports.
	reportTimesMaxAge = 30 * time.Second
	shardReadInterval = time.Second
)

type reportTimesSender struct{ kymas *Kymas }

func (h reportTimesSender) Start(ctx context.Context) error {
	tick := time.NewTicker(shardReadInterval)
	defer tick.Stop()
	var last time.Time
	lastError := ""
	for {
		if s := h.kymas.Planner; s.isActive() && time.Since(last) >= reportTimesInterval {
			err := h.send(ctx, s)
			if err == nil {
				last, lastError = time.Now(), ""
			} else if text := err.Error(); text != lastError && ctx.Err() == nil {
				ctrl.LoggerFrom(ctx).
					Error(err, "failed to send the report times to the rollout planner, rollouts are on hold")
				lastError = text
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (h reportTimesSender) send(ctx context.Context, s *RemotePlanner) error {
	data, err := h.kymas.reports.collectTimes().Encode()
	if err != nil {
		return fmt.Errorf("encode the report times of shard %d: %w", h.kymas.Share.Number, err)
	}
	return s.SendReportTimes(ctx, data)
}

func (r *reportReader) collectTimes() shard.ReportTimes {
	r.mu.Lock()
	began, now := r.startedAt, r.now()
	r.mu.Unlock()
	all := shard.ReportTimes{At: now, Began: began, Kymas: map[string]shard.ReportTime{}}
	if began.IsZero() {
		all.Began = now
	}
	r.fleet.ForEach(func(kyma fleetstate.Key, known *fleetstate.Runtime) {
		if accepted := known.Report.Accepted; accepted != nil {
			all.Kymas[kyma.Name] = shard.NewReportTime(accepted.Time, r.withoutMonotonic(known.Report.ArrivedAt),
				accepted.Content.String())
		}
	})
	return all
}

// lastReportOf returns the time of a runtime's last report from the Kyma's status or from the shard's report times,
// whichever is newer. received can be nil.
func lastReportOf(kyma *v1beta2.Kyma, received *shard.ReportTimes, now time.Time) silence.LastReport {
	outdated := received == nil || now.Sub(received.At) > reportTimesMaxAge
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
	recorded := status != nil && status.Observed != nil && last.HasContent(status.Observed.Report)
	return plan.LastReport(kyma,
		&plan.ReceivedReport{CreatedAt: time.Unix(last.Made, 0), ArrivedAt: time.Unix(last.Arrived, 0), IsRecorded: recorded},
		since)
}
