package install

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/guard"
)

// Webhooks, admission policies and aggregated APIs decide about requests for other objects. One whose server is down,
// or that is wrong, blocks the very version that corrects or drops it. A version's changes to them are therefore
// applied before its other objects.

// intercepts reports whether objects of a kind decide about requests for other objects.
func intercepts(gk schema.GroupKind) bool {
	return gk.Group == guard.AdmissionGroup || gk == schema.GroupKind{
		Group: "apiregistration.k8s.io", Kind: "APIService",
	}
}

// pruneInterceptors deletes interceptors that a new version no longer has before it is applied. Failures are left to
// prune.
func (i *Installer) pruneInterceptors(ctx context.Context, m *v1beta2.Manifest, p plan) error {
	dropped := slices.DeleteFunc(slices.Clone(p.prune), func(r v1beta2.Resource) bool {
		return !intercepts(keyOf(r).GroupKind())
	})
	mine, _, err := i.handOver(ctx, m, dropped)
	if err != nil || len(mine) == 0 {
		return err
	}
	_, err = i.deleteObjects(ctx, m, mine, i.owner(m).MayDelete(m.Annotations[v1beta2.AnnotationInherited] != ""))
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// applyInterceptors applies the interceptors of a plan that already exist, after one of them refused an object or could
// not be called: the version may correct the one that blocks it. It returns only temporary errors.
func (a *actor) applyInterceptors(ctx context.Context, p plan) error {
	for _, o := range slices.Concat(p.stages[:]...) {
		if !intercepts(o.GroupVersionKind().GroupKind()) {
			continue
		}
		live, err := a.owned(ctx, resourceOf(o))
		if err == nil && live != nil {
			_, err = a.applyTaking(ctx, o)
		}
		if err != nil && passing(err) {
			return err
		}
	}
	return nil
}

// relax removes and corrects the interceptors of the version in force after one of them refused the new version in a
// dry run. It reports whether there are any, so that a second dry run can pass.
func (i *Installer) relax(ctx context.Context, m *v1beta2.Manifest, known *memo, p plan) (bool, error) {
	isInterceptor := func(r v1beta2.Resource) bool { return intercepts(keyOf(r).GroupKind()) }
	inForce := slices.ContainsFunc(m.Status.Synced, isInterceptor)
	if !inForce {
		return false, nil
	}
	if err := i.begin(ctx, m, known); err != nil {
		return false, err
	}
	if err := i.pruneInterceptors(ctx, m, p); err != nil {
		return false, err
	}
	return true, i.actor(m).applyInterceptors(ctx, p)
}

// leaveUnread takes custom resources out of a plan whose owner could not be read, so that the rest is applied: an
// operator may serve the conversion webhook of its own custom resources. The plan's inventory still has them.
func (p *plan) leaveUnread() {
	if len(p.unread) == 0 {
		return
	}
	for n, stage := range p.stages {
		p.stages[n] = slices.DeleteFunc(slices.Clone(stage), func(o *unstructured.Unstructured) bool {
			return p.unread[guard.KeyOf(o)] != ""
		})
	}
	if p.defaultCR != nil && p.unread[guard.KeyOf(p.defaultCR)] != "" {
		p.defaultCR = nil
	}
}

// unreadText names the custom resources that could not be read, with the API server's error.
func (p *plan) unreadText() string {
	var texts []string
	for k, why := range p.unread {
		texts = append(texts, k.String()+": "+why)
	}
	return "waiting for the API server to read " + firstFew(texts)
}
