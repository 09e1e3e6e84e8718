package signin

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/user"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
)

const (
	// maxToken is longer than any API server token, and shorter than the limit for an HTTP header.
	maxToken       = 8 << 10
	reviewedTokens = 4096
	reviewTimeout  = 10 * time.Second
)

var errNotAccepted = errors.New("the API server rejected the token")

// Tokens verifies bearer tokens with TokenReviews at the API server.
type Tokens struct {
	api      authenticationclient.TokenReviewInterface
	audience string
	validity time.Duration
	known    *cache.LRUExpireCache
}

// NewTokens returns Tokens that cache each review for the duration validity. With an audience, only tokens for that
// audience are accepted. Without one, only tokens for the API server are accepted.
func NewTokens(api authenticationclient.TokenReviewInterface, audience string, validity time.Duration) *Tokens {
	return &Tokens{api: api, audience: audience, validity: validity, known: cache.NewLRUExpireCache(reviewedTokens)}
}

// canAct reports whether the UI can use tokens for changes. Tokens with an audience are not valid for the API server.
func (t *Tokens) canAct() bool { return t.audience == "" }

// review returns a token's user. The error is errNotAccepted if the API server rejects the token. Any other error means
// that the token could not be verified.
func (t *Tokens) review(ctx context.Context, token string) (*user.DefaultInfo, error) {
	if !isPlausible(token) {
		return nil, errNotAccepted
	}
	if found := t.cachedUser(token); found != nil {
		return found, nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	spec := authenticationv1.TokenReviewSpec{Token: token}
	if t.audience != "" {
		spec.Audiences = []string{t.audience}
	}
	answer, err := t.api.Create(ctx, &authenticationv1.TokenReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("review a token: %w", err)
	}
	status := answer.Status
	// An API server that does not support audiences returns a status without audiences. Refuse such a token, because it
	// could have been issued for the API server instead of the UI.
	if !status.Authenticated || status.User.Username == "" ||
		(t.audience != "" && !slices.Contains(status.Audiences, t.audience)) {
		return nil, errNotAccepted
	}
	extra := map[string][]string{}
	for key, values := range status.User.Extra {
		extra[key] = values
	}
	found := &user.DefaultInfo{
		Name: status.User.Username, UID: status.User.UID, Groups: status.User.Groups, Extra: extra,
	}
	t.known.Add(sha256.Sum256([]byte(token)), found, t.validity)
	return found, nil
}

func (t *Tokens) cachedUser(token string) *user.DefaultInfo {
	found, _ := t.known.Get(sha256.Sum256([]byte(token)))
	named, _ := found.(*user.DefaultInfo)
	return named
}

// isPlausible reports whether a string can be a token.
//
// Source: RFC 6750, section 2.1.
func isPlausible(token string) bool {
	return token != "" && len(token) <= maxToken && !strings.ContainsFunc(token, func(r rune) bool {
		return r <= ' ' || r > '~'
	})
}
