package command

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/follow"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/web/access"
)

const pageOf = 500

// read reads the fleet. For healthy runtimes, it reads only the columns of the API server's table if they are
// sufficient.
func (f *statusFlags) read(ctx context.Context, selector labels.Selector) (fleet.Input, error) {
	table, err := f.tables()
	if err != nil {
		return fleet.Input{}, err
	}
	api, err := f.connect()
	if err != nil {
		return fleet.Input{}, err
	}
	return f.readBy(ctx, api, table, scope{namespace: f.scope(), selector: selector})
}

func (f *statusFlags) readBy(
	ctx context.Context, api client.Reader, table rest.Interface, of scope,
) (fleet.Input, error) {
	if f.showsWhole() {
		return readInput(ctx, api, of, dividedRuntimes{})
	}
	rows, err := listRows(ctx, table, of)
	// If the table expired, list the Kymas instead. If the CRD is missing, listing returns a clearer error.
	if err != nil && !apierrors.IsResourceExpired(err) && !apierrors.IsNotFound(err) {
		return fleet.Input{}, err
	}
	var rollouts v1alpha1.RolloutList
	if len(rows) > 0 && f.listsHealthy() {
		if err := api.List(ctx, &rollouts, client.InNamespace(of.namespace)); err != nil {
			return fleet.Input{}, fmt.Errorf("read the control plane: %w", err)
		}
	}
	return readInput(ctx, api, of, f.divideRuntimes(rows, fleet.NewRollouts(rollouts.Items), time.Now()))
}

// showsWhole reports whether the output contains fields that the API server's table lacks, such as labels.
func (f *statusFlags) showsWhole() bool {
	return f.runtime == "" && (f.format == "json" || f.format == "yaml")
}

func (f *statusFlags) listsHealthy() bool { return f.all || f.module != "" || f.version != "" }

// divideRuntimes separates runtimes whose table rows are sufficient from Kymas to read. It returns the zero value if
// all Kymas must be read, or if reading all of them is cheaper.
func (f *statusFlags) divideRuntimes(rows []fleet.Row, rollouts fleet.Rollouts, now time.Time) dividedRuntimes {
	if f.runtime == "" && f.format != formatName && len(rows) <= listedWhole {
		return dividedRuntimes{}
	}
	return divideRows(rows, func(row fleet.Row) (fleet.Runtime, bool) {
		r, healthy := f.knownBy(row, rollouts, now)
		return r, healthy && (f.runtime == "" || r.ID != f.runtime && r.Kyma != f.runtime)
	})
}

// divideRows separates runtimes whose table rows are sufficient from Kymas to read. It returns the zero value if
// reading all Kymas is cheaper.
func divideRows(rows []fleet.Row, sufficient func(fleet.Row) (fleet.Runtime, bool)) dividedRuntimes {
	d := dividedRuntimes{healthy: map[types.NamespacedName]fleet.Runtime{}}
	for _, row := range rows {
		name := types.NamespacedName{Namespace: row.Namespace, Name: row.Name}
		r, healthy := sufficient(row)
		switch {
		case healthy:
			d.healthy[name] = r
		case row.State == string(v1beta2.StateReady):
			d.others = append(d.others, name)
		default:
			d.unready = append(d.unready, name)
		}
	}
	return d.ifCheaper()
}

// ifCheaper returns d if reading only its Kymas is cheaper than reading all Kymas, and the zero value otherwise.
func (d dividedRuntimes) ifCheaper() dividedRuntimes {
	if len(d.others) > maxReadEach || len(d.healthy) < len(d.unready)+len(d.others) {
		return dividedRuntimes{}
	}
	return d
}

// knownBy returns the runtime of a table row, or false if its Kyma must be read. If a rollout can hold back a version
// of the runtime, its Kyma must be read, because the rollout selects runtimes by labels.
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

func readInput(ctx context.Context, api client.Reader, of scope, d dividedRuntimes) (fleet.Input, error) {
	var in fleet.Input
	var err error
	if in.Kymas, in.Healthy, err = readDivided(ctx, api, of, d); err != nil {
		return in, err
	}
	var rollouts v1alpha1.RolloutList
	var metas v1beta2.ModuleReleaseMetaList
	for _, list := range []client.ObjectList{&rollouts, &metas} {
		if err := api.List(ctx, list, client.InNamespace(of.namespace)); err != nil {
			return in, fmt.Errorf("read the control plane: %w", err)
		}
	}
	in.Rollouts, in.Metas = rollouts.Items, metas.Items
	if of.namespace != "" {
		err = readCircumstances(ctx, api, of.namespace, &in)
	}
	return in, err
}

// readCircumstances reads the state that affects all runtimes, such as the expiry of the root of trust, into input. If
// a read fails, it does not change input.
func readCircumstances(ctx context.Context, api client.Reader, namespace string, input *fleet.Input) error {
	held, err := follow.WhyHeld(ctx, api, namespace)
	if err != nil {
		return err
	}
	expires, err := rootExpires(ctx, api, namespace)
	if err != nil {
		return err
	}
	trains, err := access.TrainsBy(ctx, api, namespace)
	if err != nil {
		return err
	}
	input.Held, input.RootExpires, input.Trains = held, expires, trains
	return nil
}
