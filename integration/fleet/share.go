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

// labelShare is the label with the name of a Kyma's share.
const labelShare = "fleet.test/share"

// Share returns a share of the fleet: a Fleet with its own runtimes and modules, so that several tests can use one
// fleet. All shares use the same control plane, publisher, registry and keys. A test must not stop, replace or
// intercept these shared parts.
//
// Tests must call Own for the names of all objects that they create in the control plane. Close removes only the
// runtimes and Kymas of the share.
func (f *Fleet) Share(name string) *Fleet {
	share := *f
	share.share, share.runtimes, share.simulated = name, nil, nil
	return &share
}

// Own makes a name unique among the shares: it appends the share's name. Outside a share, it returns name unchanged.
func (f *Fleet) Own(name string) string {
	if f.share == "" {
		return name
	}
	return name + "-" + f.share
}

// Own returns a name that is unique to the runtime's share of the fleet (see Fleet.Share).
func (r *Runtime) Own(name string) string { return r.fleet.Own(name) }

// Own returns a name that is unique to the runtime's share of the fleet (see Fleet.Share).
func (s *Simulated) Own(name string) string { return s.fleet.Own(name) }

// label adds the label of this share to a Kyma.
func (f *Fleet) label(kyma *v1beta2.Kyma) {
	if f.share != "" {
		metav1.SetMetaDataLabel(&kyma.ObjectMeta, labelShare, f.share)
	}
}

// audience returns the selector for the Kymas that can use this share's modules. Outside a share, it returns nil, which
// means all Kymas.
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
