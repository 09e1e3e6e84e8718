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
	// maxToken is more than any token of the API server takes, and less than a header may.
	maxToken = 8 << 10
	// reviewedTokens is of how many tokens is remembered what the API server said.
	reviewedTokens = 4096
	reviewTimeout  = 10 * time.Second
)

// errNotAccepted says that the API server does not know a token, or no longer.
var errNotAccepted = errors.New("the API server does not accept the token")

// Tokens asks the API server whose a bearer token is.
type Tokens struct {
	api      authenticationclient.TokenReviewInterface
	audience string
	validity time.Duration
	known    *cache.LRUExpireCache
}

// NewTokens returns Tokens that ask by an API, whose answers count for a while: a token that ends is noticed so late at most. With an audience
// only tokens that were made for it count, else those for the API server.
func NewTokens(api authenticationclient.TokenReviewInterface, audience string, validity time.Duration) *Tokens {
	return &Tokens{api: api, audience: audience, validity: validity, known: cache.NewLRUExpireCache(reviewedTokens)}
}

// acting reports whether a user's own token lets the page act as the user: one that was made for the page alone does not.
func (t *Tokens) acting() bool { return t.audience == "" }

// review returns whose a token is. The error is errNotAccepted for a token that does not count; any other error says nothing about it.
func (t *Tokens) review(ctx context.Context, token string) (*user.DefaultInfo, error) {
	if !plausible(token) {
		return nil, errNotAccepted
	}
	if found := t.remembered(token); found != nil {
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
		return nil, fmt.Errorf("ask the API server about a token: %w", err)
	}
	status := answer.Status
	// An API server that knows no audiences answers for its own alone.
	if !status.Authenticated || status.User.Username == "" || (t.audience != "" && !slices.Contains(status.Audiences, t.audience)) {
		return nil, errNotAccepted
	}
	extra := map[string][]string{}
	for key, values := range status.User.Extra {
		extra[key] = values
	}
	found := &user.DefaultInfo{Name: status.User.Username, UID: status.User.UID, Groups: status.User.Groups, Extra: extra}
	t.known.Add(sha256.Sum256([]byte(token)), found, t.validity)
	return found, nil
}

// remembered returns whose a token was a moment ago, nil where nobody asked.
func (t *Tokens) remembered(token string) *user.DefaultInfo {
	found, _ := t.known.Get(sha256.Sum256([]byte(token)))
	named, _ := found.(*user.DefaultInfo)
	return named
}

// plausible refuses what no token can be before anybody is asked.
//
// Source: RFC 6750, section 2.1.
func plausible(token string) bool {
	return token != "" && len(token) <= maxToken && !strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
}
