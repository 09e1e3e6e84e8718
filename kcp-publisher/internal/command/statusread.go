package command

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/follow"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/web/access"
)

// pageOf is the page size for listing Kymas.
const pageOf = 500

// read reads the objects that determine the fleet's health. For healthy runtimes, it reads only the fields that the
// output shows.
func (f *statusFlags) read(ctx context.Context, selector labels.Selector) (fleet.Input, error) {
	config, err := f.cluster.Config()
	if err != nil {
		return fleet.Input{}, err
	}
	table, err := newTableClient(config)
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
		return readInput(ctx, api, of, divided{})
	}
	rows, err := listRows(ctx, table, of)
	// If the table expired while it was read, list the Kymas instead. If the CRD is missing, the list returns a clearer
	// error.
	if err != nil && !apierrors.IsResourceExpired(err) && !apierrors.IsNotFound(err) {
		return fleet.Input{}, err
	}
	var rollouts v1alpha1.RolloutList
	if len(rows) > 0 && f.listsHealthy() {
		if err := api.List(ctx, &rollouts, client.InNamespace(of.namespace)); err != nil {
			return fleet.Input{}, fmt.Errorf("read the control plane: %w", err)
		}
	}
	return readInput(ctx, api, of, f.divide(rows, fleet.NewRollouts(rollouts.Items), time.Now()))
}

// showsWhole reports whether the output contains fields of healthy runtimes that are not in the table, such as labels,
// channels and certificate expiry.
func (f *statusFlags) showsWhole() bool {
	return f.runtime == "" && (f.format == "json" || f.format == "yaml")
}

// listsHealthy reports whether the output lists details of healthy runtimes, or filters by their modules.
func (f *statusFlags) listsHealthy() bool { return f.all || f.module != "" || f.version != "" }

// divided separates healthy runtimes, whose table row contains all displayed fields, from the Kymas to read. With the
// zero value, all Kymas are read.
type divided struct {
	healthy map[types.NamespacedName]fleet.Runtime
	// unready and others are the names of the Kymas to read. others contains Kymas in state Ready whose table rows are
	// not sufficient.
	unready, others []types.NamespacedName
}

// divide separates the healthy runtimes of a table from the Kymas that must be read. It returns the zero value if the
// output lists the whole fleet, or if reading all Kymas is cheaper.
func (f *statusFlags) divide(rows []fleet.Row, rollouts fleet.Rollouts, now time.Time) divided {
	d := divided{healthy: map[types.NamespacedName]fleet.Runtime{}}
	for _, row := range rows {
		name := types.NamespacedName{Namespace: row.Namespace, Name: row.Name}
		r, healthy := f.knownBy(row, rollouts, now)
		switch {
		case healthy && (f.runtime == "" || r.ID != f.runtime && r.Kyma != f.runtime):
			d.healthy[name] = r
		case row.State == string(v1beta2.StateReady):
			d.others = append(d.others, name)
		default:
			d.unready = append(d.unready, name)
		}
	}
	listed := f.runtime == "" && f.format != formatName && len(rows) <= listedWhole
	if listed || len(d.others) > maxReadEach || len(d.healthy) < len(d.unready)+len(d.others) {
		return divided{}
	}
	return d
}

// knownBy returns the runtime of a table row. The second result is false if the runtime is not healthy or the row does
// not contain all displayed fields. A row is not sufficient if a rollout can hold a version of the runtime, because
// that depends on labels, which rows do not contain.
func (f *statusFlags) knownBy(row fleet.Row, rollouts fleet.Rollouts, now time.Time) (fleet.Runtime, bool) {
	if !f.listsHealthy() {
		return row.Healthy(now)
	}
	r, known := row.Listed(now)
	if known && f.format != formatName && f.selects(&r) && rollouts.MayHold(&r) {
		return fleet.Runtime{}, false
	}
	return r, known
}

// scope selects the Kymas to read. An empty namespace selects all namespaces.
type scope struct {
	namespace string
	selector  labels.Selector
	fields    fields.Selector
}

// readInput reads the objects that determine the fleet's health. The caller sets the field Now of the result.
func readInput(ctx context.Context, api client.Reader, of scope, d divided) (fleet.Input, error) {
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

// readKymas lists Kymas in pages.
func readKymas(ctx context.Context, api client.Reader, of scope) ([]v1beta2.Kyma, error) {
	var kymas []v1beta2.Kyma
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		list := &v1beta2.KymaList{}
		return list, api.List(ctx, list, &client.ListOptions{
			Namespace: of.namespace, LabelSelector: of.selector, FieldSelector: of.fields, Limit: options.Limit,
			Continue: options.Continue,
		})
	})
	pages.PageSize = pageOf
	err := pages.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		kymas = append(kymas, *object.(*v1beta2.Kyma))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list Kymas: %w", err)
	}
	return kymas, nil
}

// readCircumstances reads the state of a namespace that affects all its runtimes: whether an unapproved commit holds
// publishing, when the root of trust expires, and the promotion trains. If a read fails, it does not change the input,
// so a timeout does not hide a warning that the input already contains.
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
