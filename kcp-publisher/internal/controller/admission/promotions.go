package admission

import (
	"context"
	"net/http"
	"slices"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

// maxWarningBytes is the longest warning that the API server returns without shortening it.
const maxWarningBytes = 256

// promotions is a webhook for ModuleReleaseMetas. It returns a warning if a user sets a channel to a version whose last
// rollout in this channel failed. It never rejects an object.
type promotions struct{ rollouts client.Reader }

func (p promotions) Handle(ctx context.Context, request admission.Request) admission.Response {
	var before, after v1beta2.ModuleReleaseMeta
	if err := decodeObjects(request, &before, &after); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	allowed := admission.Allowed("")
	promoted := slices.DeleteFunc(slices.Clone(after.Spec.Channels), func(c v1beta2.ChannelVersion) bool {
		return slices.ContainsFunc(before.Spec.Channels, func(had v1beta2.ChannelVersion) bool { return had == c })
	})
	if len(promoted) == 0 {
		return allowed
	}
	var all fleet.RolloutList
	if err := p.rollouts.List(ctx, &all, client.InNamespace(request.Namespace)); err != nil {
		ctrl.Log.Error(err, "failed to list Rollouts, a promotion was not checked for rejected versions",
			"moduleReleaseMeta", request.Name)
		return allowed
	}
	after.Spec.Channels = promoted
	for _, r := range rollout.ListRejected([]v1beta2.ModuleReleaseMeta{after}, all.Items) {
		allowed.Warnings = append(allowed.Warnings, bundle.Bounded(rollout.RejectionMessage(r), maxWarningBytes))
	}
	return allowed
}
