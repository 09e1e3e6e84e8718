package publish

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// A manifest with empty fields needs much more memory than its JSON.
func TestDecodedStatesAreLimitedByMemory(t *testing.T) {
	const states, manifests = 2_000, bundle.MaxManifests
	cache := newOpenedCache()
	for i := range states {
		key := documentsKey{state: digest.FromString(fmt.Sprint(i))}
		cache.Put(key, decodedState{DesiredState: bundle.DesiredState{Manifests: make([]bundle.Manifest, manifests)}})
	}
	each := manifests * int(reflect.TypeFor[bundle.Manifest]().Size())
	if entries, _ := cache.Size(); entries < 2 || entries*each > maxOpenedBytes {
		t.Errorf("%d states are cached, which need %d bytes each", entries, each)
	}
}
