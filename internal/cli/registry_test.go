package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/kyma-pull/kyma-pull/bundle/store"
)

func TestRegistryFlagsOverrideDefaults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, []byte(`{"auths":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var r Registry
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	r.AddFlags(flags)
	if err := flags.Parse([]string{"--registry-config", path, "--plain-http", "--blob-host", "one.example",
		"--blob-host", "two.example:9000"}); err != nil {
		t.Fatal(err)
	}
	access, err := r.Access(store.Access{
		DockerConfig: []byte("known"), CA: []byte("known"), NoRetry: true, RequestTimeout: TransferTimeout,
	})
	if err != nil {
		t.Fatal(err)
	}
	if string(access.DockerConfig) != `{"auths":{}}` || string(access.CA) != "known" || !access.PlainHTTP ||
		!access.NoRetry || access.RequestTimeout != TransferTimeout ||
		!slices.Equal(access.BlobHosts, []string{"one.example", "two.example:9000"}) {
		t.Errorf("got %+v, want the values of the flags and the other defaults", access)
	}
}

func TestFilesNamedInRegistryFlagsAreReloaded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("{}")
	r := Registry{Config: path}
	access, err := r.Access(store.Access{CA: []byte("of a Secret")})
	if err != nil {
		t.Fatal(err)
	}
	write(`{"auths":{}}`)
	if read, err := access.Renew(); err != nil || string(read.DockerConfig) != `{"auths":{}}` ||
		string(read.CA) != "of a Secret" {
		t.Errorf("got %+v, error %v, want the changed file", read, err)
	}
	if access, err = new(Registry).Access(store.Access{}); err != nil || access.Renew != nil {
		t.Errorf("got a Renew function although no flag names a file, error %v", err)
	}
}

func TestOpenErrorNamesTheInvalidFlag(t *testing.T) {
	yaml := filepath.Join(t.TempDir(), "kyma.yaml")
	if err := os.WriteFile(yaml, []byte("kind: Kyma\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		registry Registry
		location string
		want     string
	}{
		"location with a scheme": {Registry{}, "https://host/path", "--to: location"},
		"missing credentials file": {
			Registry{Config: "/nowhere"}, "host/path", "--registry-config: open /nowhere",
		},
		"blob host with a scheme": {
			Registry{BlobHosts: []string{"https://blobs.example"}}, "host/path",
			"--blob-host \"https://blobs.example\": must be HOST",
		},
		"credentials file in the wrong format": {
			Registry{Config: yaml}, "host/path", "--registry-config " + yaml + ": docker config: ",
		},
		"certificates file in the wrong format": {
			Registry{CA: yaml}, "host/path", "--registry-ca " + yaml + ": registry CA: no certificate found",
		},
		"missing certificates file": {Registry{CA: "/nowhere"}, "host/path", "--registry-ca: open /nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := c.registry.Open("--to", c.location, store.Access{}); err == nil ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	opened, registries, err := new(Registry).Open("--to", "oci-layout:"+t.TempDir(), store.Access{})
	if err != nil || registries == nil || !store.IsLayout(opened) {
		t.Errorf("got store %v, registries %v, error %v, want a layout", opened, registries, err)
	}
}
