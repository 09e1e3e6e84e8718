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

// labelShare is the label of a Kyma with the name of its share. The ModuleReleaseMetas of a share select Kymas by this
// label.
const labelShare = "fleet.test/share"

// Share returns a share of the fleet. Several users can work on one fleet at the same time, each with a share. A share
// has its own runtimes and modules, and the Kymas of other shares do not see these modules. All shares use the fleet's
// control plane, publisher, registry and keys, so a user of a share must not stop, replace or intercept them.
//
// Runtimes, modules, rollouts and other objects in the control plane must have the names that Own returns.
// Close of a share removes its runtimes and Kymas; the fleet continues to run.
func (f *Fleet) Share(name string) *Fleet {
	share := *f
	share.share, share.runtimes, share.simulated = name, nil, nil
	return &share
}

// Own appends the name of the share to the name of a control plane object. Outside a share, it returns name unchanged.
func (f *Fleet) Own(name string) string {
	if f.share == "" {
		return name
	}
	return name + "-" + f.share
}

// Own returns the name that an object in the control plane has in the runtime's share.
func (r *Runtime) Own(name string) string { return r.fleet.Own(name) }

// Own returns the name that an object in the control plane has in the runtime's share.
func (s *Simulated) Own(name string) string { return s.fleet.Own(name) }

// label adds the label of this share to a Kyma.
func (f *Fleet) label(kyma *v1beta2.Kyma) {
	if f.share != "" {
		metav1.SetMetaDataLabel(&kyma.ObjectMeta, labelShare, f.share)
	}
}

// audience returns the label selector of the Kymas that see the modules of this share, or nil for all Kymas.
func (f *Fleet) audience() *metav1.LabelSelector {
	if f.share == "" {
		return nil
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{labelShare: f.share}}
}

// closeUsers stops all real and simulated runtimes of this share or fleet.
func (f *Fleet) closeUsers() error {
	var problems []error
	for _, s := range f.simulated {
		s.close()
	}
	for _, r := range f.runtimes {
		problems = append(problems, r.close())
	}
	return errors.Join(problems...)
}

// forgetKymas deletes the Kymas of a share whose clusters are already stopped. It marks the runtimes as gone, so that
// the publisher does not wait for their agents.
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
