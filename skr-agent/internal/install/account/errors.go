package account

import (
	"context"
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	agentobjects "github.com/kyma-pull/kyma-pull/skr-agent/internal/objects"
)

// IsTemporary reports whether an error is temporary and not caused by the module.
func IsTemporary(err error) bool {
	return apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsConflict(err) || apierrors.IsUnauthorized(err) ||
		utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// ObjectError is the API server's error for one object.
type ObjectError struct {
	guard.Key
	Err error
}

func (e ObjectError) Error() string { return e.String() + ": " + apiMessage(e.Err) }

func (e ObjectError) Unwrap() error { return e.Err }

// FailedKeys returns the objects from all ObjectErrors that an error wraps.
func FailedKeys(err error) object.Keys {
	found := object.Keys{}
	var walk func(error)
	walk = func(err error) {
		switch e := err.(type) { //nolint:errorlint // walk visits all wrapped errors
		case ObjectError:
			found[e.Key] = struct{}{}
		case interface{ Unwrap() []error }:
			for _, one := range e.Unwrap() {
				walk(one)
			}
		}
	}
	walk(err)
	return found
}

// Separate returns the errors in a joined error.
func Separate(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error }) //nolint:errorlint // errors.As would also search wrapped errors
	if !ok {
		return []error{err}
	}
	var all []error
	for _, one := range joined.Unwrap() {
		all = append(all, Separate(one)...)
	}
	return all
}

// apiMessage returns the API server's message. It removes dumped Go values, which can be long.
func apiMessage(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 ||
		!apierrors.IsInvalid(err) {
		return err.Error()
	}
	var texts []string
	for _, cause := range status.Status().Details.Causes {
		text := cause.Message
		// "Invalid value: core.PodTemplateSpec{...}: field is immutable" can contain pages of text in the braces.
		if end := strings.LastIndex(text, "}: "); strings.HasPrefix(text, "Invalid value: ") && end > 0 {
			text = text[end+len("}: "):]
		}
		if cause.Type == metav1.CauseTypeForbidden {
			// For a Pod, the following lines contain the difference between the two specs, which can fill pages.
			text, _, _ = strings.Cut(text, "\n")
		}
		if cause.Field != "" && cause.Field != "<nil>" {
			text = cause.Field + ": " + text
		}
		texts = append(texts, text)
	}
	return excerpt.FirstFew(texts)
}

// IsMistake reports whether an error is caused by the object, although it looks temporary. For example, the API server
// returns an internal error for a value of the wrong type.
func IsMistake(err error) bool {
	return slices.ContainsFunc([]string{
		"failed to create typed patch object", "field not declared in schema", "cannot convert",
		"json: cannot unmarshal",
	},
		func(text string) bool { return strings.Contains(err.Error(), text) })
}

// LacksRight reports whether an error means that the account lacks a permission. It returns false for admission
// policies, webhooks and quotas, which also refuse requests with Forbidden.
func LacksRight(err error) bool { return apierrors.IsForbidden(err) && !agentobjects.IsDenied(err) }

// IsTransient reports whether the API server, a webhook or an aggregated API is temporarily unavailable or
// overloaded.
func IsTransient(err error) bool {
	return err != nil && !IsMistake(err) &&
		(apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) ||
			apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err))
}

// IsUnserved reports whether an error means that a version or kind is not served. For an unserved version of a built-in
// kind, the API server returns a Status without details. For a missing object, the Status names the object.
func IsUnserved(err error) bool {
	if err == nil {
		return false
	}
	if meta.IsNoMatchError(err) {
		return true
	}
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	if d := status.Status().Details; d.Kind == "" && d.Name == "" && len(d.Causes) == 0 {
		return true
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return c.Type == metav1.CauseTypeUnexpectedServerResponse
	})
}

// IsUnconverted reports whether the API server may have failed to convert a stored object to the requested version.
func IsUnconverted(err error) bool { return apierrors.IsInternalError(err) }

// ErrAbsentKind means that the API server does not serve a kind in any version.
var ErrAbsentKind = errors.New("the API server does not serve this kind in any version")

// isAbsent reports whether a read error means that the object does not exist. This includes kinds that cannot be read,
// such as TokenReview, because the API server never stores their objects.
func isAbsent(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

// ignoreForbidden returns nil for a missing permission.
func ignoreForbidden(err error) error {
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// ignoreUnserved returns nil for a kind that is not served.
func ignoreUnserved(err error) error {
	if IsUnserved(err) {
		return nil
	}
	return err
}
