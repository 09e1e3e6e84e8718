package prune

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory" // registers the storage driver
	"github.com/opencontainers/go-digest"
	"github.com/sirupsen/logrus"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

// A proxy in front of the registry can omit repositories from the list.
func TestIncompleteRepositoryListIsDetected(t *testing.T) {
	logrus.SetOutput(io.Discard)
	registry := handlers.NewApp(context.WithoutCancel(t.Context()), inMemory())
	var names []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v2/_catalog" {
			_ = json.NewEncoder(w).Encode(map[string][]string{"repositories": names})
			return
		}
		registry.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s := &registryFolder{T: t, signer: trusttest.NewSigner(t)}
	registries, err := store.NewRegistries(store.Access{})
	s.must(err)
	s.place, err = store.Open(strings.TrimPrefix(server.URL, "http://")+"/fleet", registries)
	s.must(err)
	s.must(store.PushRoot(t.Context(), s.place, trusttest.RootFor(t, s.signer)))
	for _, id := range []string{"a", "b"} {
		s.push(s.signer, s.documents("ours"), id, 1)
	}
	s.push(s.signer, s.documents("another's"), "c", 1)

	whole := []string{
		"fleet/content", "fleet/documents", "fleet/runtimes/a", "fleet/runtimes/b", "fleet/runtimes/c", "fleet/trust",
	}
	for name, c := range map[string]struct {
		left []string
		want string
	}{
		"complete list": {nil, ""},
		"empty list":    {whole, "does not list repositories below this prefix"},
		"list without a Kyma's runtime": {
			[]string{"fleet/runtimes/b", "fleet/runtimes/c"}, "omits 1 existing repositories, such as runtimes/b",
		},
		"list truncated after the Kymas' runtimes": {
			[]string{"fleet/runtimes/c", "fleet/trust"}, "omits 1 existing repositories, such as trust",
		},
	} {
		t.Run(name, func(t *testing.T) {
			names = slices.DeleteFunc(slices.Clone(whole), func(name string) bool {
				return slices.Contains(c.left, name)
			})
			inventory := s.read(func(source *Source) {
				source.Sole, source.Kymas = false, map[string][]digest.Digest{"a": nil, "b": nil}
			})
			if got := strings.Join(inventory.Unknown, "\n"); !strings.Contains(got, c.want) ||
				(got == "") != (c.want == "") {
				t.Errorf("got reasons %q, want %q", got, c.want)
			}
			noted := map[string]time.Time{}
			for _, m := range inventory.Shared {
				noted[m.Key()] = ago(100)
			}
			if plan := Decide(inventory, noted, rules); len(inventory.Shared) == 0 || len(plan.Remove) != 0 {
				t.Errorf("plan removes %+v of %d shared manifests, want none", plan.Remove, len(inventory.Shared))
			}
		})
	}
}

func inMemory() *configuration.Configuration {
	config := &configuration.Configuration{Storage: configuration.Storage{
		"inmemory": configuration.Parameters{}, "maintenance": configuration.Parameters{
			"uploadpurging": map[any]any{"enabled": false},
		},
	}}
	config.Log.Level, config.Log.AccessLog.Disabled, config.HTTP.Secret = "panic", true, "loopback"
	return config
}
