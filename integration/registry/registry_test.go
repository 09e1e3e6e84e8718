package registry

import (
	"encoding/base64"
	"errors"
	"fmt"
	"testing"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/store/storetest"
)

func TestRegistryRequiresCertificateAndPassword(t *testing.T) {
	r, err := Start(t.Context(), Options{TLS: true, Users: map[string]string{"agent": "secret"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	credentials := base64.StdEncoding.EncodeToString([]byte("agent:secret"))
	config := fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, r.Host(), credentials)

	documents, err := bundle.NewDocuments(bundle.DesiredState{}, bundle.Catalog{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		access store.Access
		works  bool
	}{
		{"request with certificate and password", store.Access{CA: r.CA(), DockerConfig: config}, true},
		{"without password", store.Access{CA: r.CA(), NoRetry: true}, false},
		{"without certificate", store.Access{DockerConfig: config, NoRetry: true}, false},
	} {
		registries, err := store.NewRegistries(c.access)
		if err != nil {
			t.Fatal(err)
		}
		place, err := store.Open(r.Host()+"/fleet", registries)
		if err != nil {
			t.Fatal(err)
		}
		if err := storetest.ShareDocuments(t.Context(), place, documents); (err == nil) != c.works {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestResumedRegistryHasItsData(t *testing.T) {
	r, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	registries, _ := store.NewRegistries(store.Access{NoRetry: true})
	place, _ := store.Open(r.Host()+"/fleet", registries)
	repository, _ := place.Repository(t.Context(), "runtimes/one")
	blob := bundle.EmptyBlob()
	if err := store.PushBlob(t.Context(), repository, blob); err != nil {
		t.Fatal(err)
	}
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Head(t.Context(), repository, bundle.TagDesired); err == nil ||
		errors.Is(err, store.ErrNotFound) {
		t.Errorf("a stopped registry responded: %v", err)
	}
	if err := r.Resume(); err != nil {
		t.Fatal(err)
	}
	if there, err := repository.Exists(t.Context(), blob.Descriptor); err != nil || !there {
		t.Errorf("blob after Resume: exists is %v, error %v", there, err)
	}
	if _, err := store.Head(t.Context(), repository, bundle.TagDesired); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("resolve a missing tag: got error %v, want not found", err)
	}
}

func TestRegistryImplementsStore(t *testing.T) {
	r, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	registries, err := store.NewRegistries(store.Access{})
	if err != nil {
		t.Fatal(err)
	}
	place, err := store.Open(r.Host()+"/fleet", registries)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Conform(t, place)
}
