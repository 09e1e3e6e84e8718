package status

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

// read reads the fleet. For healthy runtimes, it reads only the columns of the API server's table if they are
// sufficient.
func (f *statusFlags) read(ctx context.Context, selector labels.Selector) (fleet.Input, error) {
	table, err := f.Tables()
	if err != nil {
		return fleet.Input{}, err
	}
	api, err := f.Connect()
	if err != nil {
		return fleet.Input{}, err
	}
	in, err := f.readBy(ctx, api, table, controlplane.KymaSelector{Namespace: f.Scope(), Selector: selector})
	if err != nil || f.Everywhere {
		return in, err
	}
	in.LeftOut, err = controlplane.ReadLeftOut(ctx, api, f.Namespace)
	return in, err
}

func (f *statusFlags) readBy(
	ctx context.Context, api client.Reader, table rest.Interface, of controlplane.KymaSelector,
) (fleet.Input, error) {
	if f.showsWhole() {
		return controlplane.ReadInput(ctx, api, of, controlplane.DividedRuntimes{})
	}
	rows, err := controlplane.ListRows(ctx, table, of)
	// If the table expired, list the Kymas instead. If the CRD is missing, listing returns a clearer error.
	if err != nil && !apierrors.IsResourceExpired(err) && !apierrors.IsNotFound(err) {
		return fleet.Input{}, err
	}
	var rollouts v1alpha1.RolloutList
	if len(rows) > 0 && f.listsHealthy() {
		if err := api.List(ctx, &rollouts, client.InNamespace(of.Namespace)); err != nil {
			return fleet.Input{}, fmt.Errorf("read the control plane: %w", err)
		}
	}
	return controlplane.ReadInput(ctx, api, of, f.divideRuntimes(rows, fleet.NewRollouts(rollouts.Items), time.Now()))
}

// showsWhole reports whether the output contains fields that the API server's table lacks, such as labels.
func (f *statusFlags) showsWhole() bool {
	return f.runtime == "" && (f.format == "json" || f.format == "yaml")
}

func (f *statusFlags) listsHealthy() bool { return f.all || f.module != "" || f.version != "" }

// divideRuntimes returns the runtimes with a sufficient table row, and the Kymas that must be read because their row is
// not sufficient. It returns the zero value if all Kymas must be read, or if reading all of them is cheaper.
func (f *statusFlags) divideRuntimes(
	rows []fleet.Row, rollouts fleet.Rollouts, now time.Time,
) controlplane.DividedRuntimes {
	if f.runtime == "" && f.format != formatName && len(rows) <= controlplane.SmallFleet {
		return controlplane.DividedRuntimes{}
	}
	return controlplane.DivideRows(rows, func(row fleet.Row) (fleet.Runtime, bool) {
		r, healthy := f.knownBy(row, rollouts, now)
		return r, healthy && (f.runtime == "" || !controlplane.RuntimeArgument(f.runtime).Matches(r.Kyma, r.ID))
	})
}

// knownBy returns the runtime in a table row, or false if its Kyma must be read. The Kyma must be read if a rollout may
// hold back a version, because rollouts select runtimes by labels.
func (f *statusFlags) knownBy(row fleet.Row, rollouts fleet.Rollouts, now time.Time) (fleet.Runtime, bool) {
	if !f.listsHealthy() {
		return row.Healthy(now)
	}
	r, known := row.RuntimeWithModules(now)
	if known && f.format != formatName && f.matches(&r) && rollouts.MayHold(&r) {
		return fleet.Runtime{}, false
	}
	return r, known
}
