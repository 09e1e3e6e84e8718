package publish

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

// NewRemovals returns the removals that a runtime's next bundle would contain without Options.DecideRemovals. It does
// not push. The next call to Publish checks the registry again, because only Publish repairs damaged content.
func (p *Publisher) NewRemovals(ctx context.Context, record *Record, in Input) (plan.NewRemovals, error) {
	if err := p.checkRequest(in.Runtime, in.Request); err != nil {
		return plan.NewRemovals{}, err
	}
	defer record.RequestCheck()
	d, request, runtime, err := p.beginDecision(ctx, record, in)
	if err == nil {
		err = p.setPredicate(ctx, record, &d, runtime, request, in.Catalog)
	}
	if err != nil {
		return plan.NewRemovals{}, fmt.Errorf("find the module removals in runtime %s: %w", in.Runtime.ID, err)
	}
	return d.adopted.Removing(d.predicate, runtime), nil
}

// decideRemovals decides which of the new removals are allowed.
func (p *Publisher) decideRemovals(
	ctx context.Context, removing plan.NewRemovals, snapshot *catalog.Snapshot,
) (decided plan.RemovalDecision, err error) {
	if len(removing.Modules) > 0 && p.DecideRemovals != nil {
		if decided, err = p.DecideRemovals(ctx, removing, snapshot); err != nil {
			return decided, err
		}
	}
	decided.Hold(removing.Unverified)
	return decided, nil
}

// withHeldModules adds modules to a request if their removal must wait for an operator's approval.
func withHeldModules(
	request resolve.Request, runtime plan.Runtime, decision plan.RemovalDecision,
) (resolve.Request, plan.Runtime) {
	request.HeldRemovals, request.IsSettling = nil, len(decision.HeldModules()) == 0
	request.WaitingRemovals = decision.Waiting
	for _, module := range slices.Sorted(maps.Keys(decision.HeldReasons)) {
		if module == "" {
			request.IsDeleting, runtime.IsDeleting = false, false
			continue
		}
		request.HeldRemovals = append(request.HeldRemovals, module)
	}
	return request, runtime
}
