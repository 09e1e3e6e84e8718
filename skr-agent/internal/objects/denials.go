package objects

import (
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// IsIntercepted reports whether an admission webhook denied a request or did not respond.
func IsIntercepted(err error) bool {
	return err != nil && strings.Contains(err.Error(), "webhook") &&
		(apierrors.IsInternalError(err) || strings.Contains(err.Error(), "denied the request"))
}

// IsDenied reports whether an admission policy, a webhook or a quota denied a request. The API server has no typed
// error for such denials, so IsDenied matches Kubernetes' messages.
func IsDenied(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	return strings.Contains(text, "denied request") || strings.Contains(text, "denied the request") ||
		strings.Contains(text, "' resulted in error: ") || // a webhook's match condition
		strings.Contains(text, "exceeded quota: ")
}

// Denier identifies the webhook or admission policy that denied a request.
type Denier struct {
	// Name is the name of the webhook (not of its configuration) or of the policy. It is empty if the API server's
	// message does not contain the name.
	Name string
	// IsMatchCondition is true if a match condition of a webhook could not be evaluated. The API server does not name
	// this webhook.
	IsMatchCondition bool
}

// The API server starts a denial with the name of the webhook or policy, so the first match is not part of the
// webhook's own text. See pkg/admission/plugin in k8s.io/apiserver: webhook/errors/statuserror.go,
// policy/validating/dispatcher.go and policy/generic/policy_dispatcher.go.
var denierPattern = regexp.MustCompile(
	`admission webhook "([^"]+)" denied the request|[Pp]olicy ['"]([^'"]+)['"] (?:with binding '[^']*' )?denied request`)

// DenierOf returns the webhook or policy that denied a request. It returns a zero Denier for other errors, for example
// if the request exceeds a quota.
func DenierOf(err error) Denier {
	if err == nil {
		return Denier{}
	}
	text := err.Error()
	if found := denierPattern.FindStringSubmatch(text); found != nil {
		return Denier{Name: found[1] + found[2]}
	}
	return Denier{IsMatchCondition: strings.Contains(text, "' resulted in error: ")}
}
