package publish

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/removal"
)

// removalGuard decides which modules can be removed from runtimes without approval. It decides about all runtimes at
// once, with the same functions as `run`, but uses the state file instead of the Kymas' status.
type removalGuard struct {
	limits   removal.Limits
	approved []string
	verdicts map[string]plan.RemovalDecision // by runtime
}

// approve records the approvals from the flag --approve-removals in the Kymas.
func (g *removalGuard) approve(kymas []v1beta2.Kyma) error {
	held := plan.HeldRemovals(kymas)
	for _, id := range g.approved {
		at := slices.IndexFunc(held, func(h plan.HeldRemoval) bool { return h.ID == id })
		if at < 0 {
			return cli.Usage(fmt.Errorf("--approve-removals: no held removals have ID %s: run publish without the flag to "+
				"list the current IDs", id))
		}
		for _, kyma := range held[at].Kymas {
			plan.Approve(kyma, held[at].Module)
		}
	}
	return nil
}

// judge decides about all removals and records the decisions in the Kymas. removing contains each Kyma's
// new removals.
func (g *removalGuard) judge(rules plan.Rules, kymas []v1beta2.Kyma, removing []plan.NewRemovals, now time.Time) {
	var all removal.Fleet
	pending := make([][]removal.PendingRemoval, len(kymas))
	for i := range kymas {
		recorded, unrecorded := plan.RecentRemovals(&kymas[i], now.Add(-g.limits.Window))
		all.Recent, all.RecentUnrecorded = append(all.Recent, recorded...), append(all.RecentUnrecorded, unrecorded...)
		// Requests from files are always current, even if the state file was lost.
		found := plan.NewRemovals{Modules: removing[i].Modules, Unrecorded: removing[i].Unrecorded}
		pending[i] = plan.CollectPending(&kymas[i], found, time.Time{})
		all.Pending = append(all.Pending, pending[i]...)
	}
	all.Runtimes = rules.CountRemovable(kymas, all.Recent)
	held := g.limits.Decide(all)
	g.verdicts = map[string]plan.RemovalDecision{}
	for i := range kymas {
		kyma := &kymas[i]
		verdict := plan.RemovalDecision{}
		for _, p := range pending[i] {
			reason, isHeld := held[p.Removal]
			if verdict.Decide(kyma, p, reason, isHeld) {
				verdict.RemovedModules = append(verdict.RemovedModules, p.Module)
			}
		}
		if kyma.Status.Runtime == nil {
			kyma.Status.Runtime = &v1beta2.RuntimeStatus{}
		}
		s := kyma.Status.Runtime
		s.Removals = plan.RemovalStatuses(s.Removals, verdict, nil, now)
		if len(pending[i]) > 0 {
			g.verdicts[plan.RuntimeID(kyma)] = verdict
		}
	}
}

// print prints the removals that wait for approval, and how to approve them. If isRecorded is false, later runs would
// not accept the IDs, so print omits the IDs.
func (g *removalGuard) print(out io.Writer, kymas []v1beta2.Kyma, isRecorded bool) {
	for _, h := range plan.HeldRemovals(kymas) {
		runtimes := make([]string, len(h.Kymas))
		for i, kyma := range h.Kymas {
			runtimes[i] = plan.RuntimeID(kyma)
		}
		fix := "run publish again with --approve-removals " + h.ID
		if !isRecorded {
			fix = "run publish without --dry-run and with a writable --state file to get an ID"
		}
		cli.Printf(out, "the removal of module %s from %d runtimes (%s) waits for approval (%s): to approve it, %s\n",
			h.Module, len(runtimes), strings.Join(runtimes, ", "), h.Reason, fix)
	}
}

// decide returns the decision that judge made for one runtime. It postpones removals that judge did not decide about.
func (g *removalGuard) decide(
	_ context.Context, removing plan.NewRemovals, _ *catalog.Snapshot,
) (plan.RemovalDecision, error) {
	known := g.verdicts[removing.Runtime]
	decided := plan.RemovalDecision{HeldReasons: map[string]removal.Reason{}}
	for _, module := range removing.Modules {
		if slices.Contains(known.RemovedModules, module) {
			decided.RemovedModules = append(decided.RemovedModules, module)
		} else {
			decided.HeldReasons[module] = known.HeldReasons[module]
		}
	}
	return decided, nil
}
