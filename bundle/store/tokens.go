package store

import (
	"context"
	"sync"

	"oras.land/oras-go/v2/registry/remote/auth"
)

// maxTokenBytes limits the memory for a program's registry tokens. The tokens for about 50,000 repositories fit into
// this limit.
const maxTokenBytes = 64 << 20

// tokenBytes is the approximate overhead per token in bytes.
const tokenBytes = 256

// tokenCache is a cache of registry tokens with a limited size. A registry chooses a token's scope, which is part of
// the key, and oras never removes a token. Without the limit, a registry that requires a different scope for each
// request could fill the memory.
type tokenCache struct {
	limitBytes int
	// basic returns the current token for a registry with the Basic scheme. If basic is nil, the cached token is used.
	// Credentials can change while a program runs. Amazon ECR returns status 403 for expired credentials, and oras
	// keeps a cached token after this status.
	basic func(ctx context.Context, registry string) (string, error)

	mu sync.Mutex // guards the fields below
	// newer receives all tokens. When they take up half of the limit, the cache moves from newer to older, and newer
	// becomes an empty cache.
	newer, older auth.Cache
	newerBytes   int
}

func newTokenCache(limitBytes int) *tokenCache {
	return &tokenCache{limitBytes: limitBytes, newer: auth.NewCache(), older: auth.NewCache()}
}

func (t *tokenCache) caches() (newer, older auth.Cache) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.newer, t.older
}

// GetScheme returns a registry's authentication scheme.
func (t *tokenCache) GetScheme(ctx context.Context, registry string) (auth.Scheme, error) {
	newer, older := t.caches()
	if scheme, err := newer.GetScheme(ctx, registry); err == nil {
		return scheme, nil
	}
	return older.GetScheme(ctx, registry)
}

// GetToken returns the token with this scheme and key for a registry.
func (t *tokenCache) GetToken(ctx context.Context, registry string, scheme auth.Scheme, key string) (string, error) {
	if scheme == auth.SchemeBasic && t.basic != nil {
		return t.basic(ctx, registry)
	}
	newer, older := t.caches()
	if token, err := newer.GetToken(ctx, registry, scheme, key); err == nil {
		return token, nil
	}
	return older.GetToken(ctx, registry, scheme, key)
}

// Set stores the token that fetch returns. If callers set the same token at the same time, only one of them fetches it.
func (t *tokenCache) Set(
	ctx context.Context, registry string, scheme auth.Scheme, key string,
	fetch func(context.Context) (string, error),
) (string, error) {
	newer, _ := t.caches()
	token, err := newer.Set(ctx, registry, scheme, key, fetch)
	if err != nil {
		return "", err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.newerBytes += len(registry) + len(key) + len(token) + tokenBytes; t.newerBytes > t.limitBytes/2 {
		t.newer, t.older, t.newerBytes = auth.NewCache(), t.newer, 0
	}
	return token, nil
}
