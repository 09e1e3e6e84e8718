package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// labelShare is the label of a Kyma with the name of its share.
const labelShare = "fleet.test/share"

// Share returns a share of the fleet: a Fleet with its own runtimes and modules, so that several tests can use one
// fleet. All shares use the same control plane, publisher, registry and keys. A test must not stop, replace or
// intercept these.
//
// Tests must create the names of objects in the control plane with Own. Close of a share removes its runtimes and
// Kymas.
func (f *Fleet) Share(name string) *Fleet {
	share := *f
	share.share, share.runtimes, share.simulated = name, nil, nil
	return &share
}

// Own returns a name that is unique among the shares: it appends the name of the share. Outside a share, it returns
// name unchanged.
func (f *Fleet) Own(name string) string {
	if f.share == "" {
		return name
	}
	return name + "-" + f.share
}

// Own appends the name of the runtime's share to a name.
func (r *Runtime) Own(name string) string { return r.fleet.Own(name) }

// Own appends the name of the runtime's share to a name.
func (s *Simulated) Own(name string) string { return s.fleet.Own(name) }

// label adds the label of this share to a Kyma.
func (f *Fleet) label(kyma *v1beta2.Kyma) {
	if f.share != "" {
		metav1.SetMetaDataLabel(&kyma.ObjectMeta, labelShare, f.share)
	}
}

// audience returns the selector of the Kymas that can use the modules of this share. Outside a share, it returns nil:
// all Kymas can use the modules.
func (f *Fleet) audience() *metav1.LabelSelector {
	if f.share == "" {
		return nil
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{labelShare: f.share}}
}

// closeRuntimes stops all real and simulated runtimes of this fleet or share.
func (f *Fleet) closeRuntimes() error {
	var problems []error
	for _, s := range f.simulated {
		s.close()
	}
	for _, r := range f.runtimes {
		problems = append(problems, r.close())
	}
	return errors.Join(problems...)
}

// forgetKymas deletes the Kymas of a share whose clusters are stopped. It marks the runtimes as gone, so that the
// publisher does not wait for their agents.
func (f *Fleet) forgetKymas() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var kymas v1beta2.KymaList
	if err := f.Control.List(ctx, &kymas, client.InNamespace(sample.Namespace),
		client.MatchingLabels{labelShare: f.share}); err != nil {
		return fmt.Errorf("list the Kymas of share %s: %w", f.share, err)
	}
	var problems []error
	for i := range kymas.Items {
		kyma := &kymas.Items[i]
		before := kyma.DeepCopy()
		metav1.SetMetaDataLabel(&kyma.ObjectMeta, v1beta2.LabelRuntimeGone, v1beta2.True)
		problems = append(problems, client.IgnoreNotFound(f.Control.Patch(ctx, kyma, client.MergeFrom(before))),
			client.IgnoreNotFound(f.Control.Delete(ctx, kyma)))
	}
	return errors.Join(problems...)
}
