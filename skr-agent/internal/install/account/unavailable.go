package account

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
)

// IsUnreadable reports whether an error concerns only objects of one kind: the API server cannot convert them, or their
// aggregated API server does not respond.
func IsUnreadable(r v1beta2.Resource, err error) bool {
	return apierrors.IsInternalError(err) || guard.IsCustomGroup(r.Group) && IsTransient(err)
}

// UnreadableText returns the API server's message for an unreadable object. If an aggregated API server can be the
// cause, the text names its APIService.
func UnreadableText(r v1beta2.Resource, err error) string {
	if !guard.IsCustomGroup(r.Group) || !apierrors.IsServiceUnavailable(err) {
		return apiMessage(err)
	}
	return fmt.Sprintf("%s: check the server of APIService %s.%s", apiMessage(err), r.Version, r.Group)
}
