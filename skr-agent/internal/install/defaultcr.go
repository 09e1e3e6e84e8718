package install

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
)

// createDefaultCR creates the default CR if it does not exist. It does not change an existing CR's spec, because users
// may have edited it. It adds the module's labels and annotations to a CR that lifecycle-manager created, and to a CR
// that another module does not need anymore.
func (ap *applier) createDefaultCR(
	ctx context.Context, a *account.Account, by object.Owner, known *memo, p planning.Plan,
) (created bool, wait string, err error) {
	if p.DefaultCR == nil {
		return false, "", nil
	}
	r := object.ResourceOf(p.DefaultCR)
	switch inPlace, err := ap.watches.Await(ctx, []v1beta2.Resource{r}, planning.DefinedGroups(p)); {
	case meta.IsNoMatchError(err):
		return false, "waiting for the API server to serve the default CR: " + err.Error(), nil
	case err != nil:
		return false, "", err
	case !inPlace:
		return false, "waiting for watches to start", nil
	}
	if ap.watches.IsMarked(r, by.OwnedBy) {
		return false, "", nil
	}
	if !p.Absent.Has(object.KeyOf(r)) {
		live, err := a.Metadata(ctx, r)
		switch {
		case err != nil:
			return false, "", err
		case live != nil:
			takes := p.TakesOver(object.KeyOf(r), live.Annotations[v1beta2.AnnotationOwnedBy], by)
			return false, "", a.AdoptDefaultCR(ctx, live, by, takes)
		}
	}
	made := p.DefaultCR.DeepCopy()
	err = a.Client.Create(ctx, made)
	if apierrors.IsAlreadyExists(err) {
		return false, "", nil
	}
	if apierrors.IsNotFound(err) {
		return false, fmt.Sprintf("waiting for the API server to accept the default CR %s: %s", object.KeyOf(r), err), nil
	}
	if err == nil {
		known.cacheFresh(object.KeyOf(r), made)
	}
	return err == nil, "", err
}
