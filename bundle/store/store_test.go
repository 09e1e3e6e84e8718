package store

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

func TestOpenAcceptsValidLocations(t *testing.T) {
	for location, want := range map[string]struct{ text, name string }{
		"registry.example/fleet":          {"registry.example/fleet", "registry.example/fleet/content"},
		"registry.example:5000/a/b":       {"registry.example:5000/a/b", "registry.example:5000/a/b/content"},
		"registry.example/fleet/":         {"registry.example/fleet", "registry.example/fleet/content"},
		"registry.example":                {"registry.example", "registry.example/content"},
		"oci://registry.example/fleet":    {"registry.example/fleet", "registry.example/fleet/content"},
		"registry:5000/fleet":             {"registry:5000/fleet", "registry:5000/fleet/content"},
		"localhost/fleet":                 {"localhost/fleet", "localhost/fleet/content"},
		"127.0.0.1:5000/fleet":            {"127.0.0.1:5000/fleet", "127.0.0.1:5000/fleet/content"},
		"oci-layout:fleet":                {"oci-layout:fleet", "./content"},
		"oci-layout:/mnt/a folder/fleet/": {"oci-layout:/mnt/a folder/fleet/", "./content"},
	} {
		t.Run(location, func(t *testing.T) {
			place, err := Open(location, openRegistries(t))
			if err != nil {
				t.Fatal(err)
			}
			if place.String() != want.text || place.Name(bundle.ContentRepository) != want.name {
				t.Errorf("got %s and %s, want %s and %s", place, place.Name(bundle.ContentRepository), want.text,
					want.name)
			}
			if IsLayout(place) != strings.HasPrefix(location, LayoutScheme) {
				t.Errorf("got IsLayout %t for %s", IsLayout(place), location)
			}
		})
	}
}

func TestOpenRefusesFolderWithoutOCILayoutPrefix(t *testing.T) {
	for _, location := range []string{"./x", "../x", ".", "/tmp/x", "~/fleet", "my-registry", "fleets/production",
		"fleet/"} {
		_, err := Open(location, openRegistries(t))
		if err == nil || !strings.Contains(err.Error(), "is a folder: use "+LayoutScheme+location) {
			t.Errorf("%s: got error %v, want advice to add the scheme", location, err)
		}
	}
}

func TestOpenRefusesInvalidLocations(t *testing.T) {
	for name, location := range map[string]string{
		"empty location":                 "",
		"slash":                          "/",
		"https scheme":                   "https://registry.example/fleet",
		"unsupported scheme":             "s3://registry.example/fleet",
		"two schemes":                    "oci://https://registry.example/fleet",
		"upper-case letters in the path": "registry.example/Fleet",
		"location with a tag":            "registry.example/fleet:v1",
		"location with a digest":         "registry.example/fleet@sha256:" + strings.Repeat("0", 64),
		"empty path element":             "registry.example//fleet",
		"path element ..":                "registry.example/../fleet",
		"space in the path":              "registry.example/my fleet",
		"line feed at the end":           "registry.example/fleet\n",
		"location with credentials":      "user:secret@registry.example/fleet",
		"layout without a folder":        "oci-layout:",
		"layout scheme in upper case":    "OCI-LAYOUT:fleet",
	} {
		t.Run(name, func(t *testing.T) {
			place, err := Open(location, openRegistries(t))
			if err == nil || !strings.HasPrefix(err.Error(), "location ") {
				t.Errorf("got store %v, error %v, want an error about the location", place, err)
			}
		})
	}
}

func TestReadingDoesNotChangeAFolder(t *testing.T) {
	for name, dir := range map[string]string{"missing folder": filepath.Join(t.TempDir(), "missing"),
		"empty folder": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			place, err := Open(LayoutScheme+dir, openRegistries(t))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := place.Reading(t.Context(), bundle.ContentRepository); err == nil {
				t.Error("got no error, want an error for a folder that is not a layout")
			}
			if entries, err := os.ReadDir(dir); len(entries) > 0 {
				t.Errorf("got entries %v, error %v, want an unchanged folder", entries, err)
			}
		})
	}
}

func TestOnlyLoopbackRegistriesUsePlainHTTP(t *testing.T) {
	for _, c := range []struct {
		name, repository   string
		plainHTTP, secured bool
		want               bool
	}{
		{name: "HTTPS by default", repository: "registry.example/a"},
		{name: "loopback name", repository: "localhost:5000/a", want: true},
		{name: "loopback address", repository: "127.0.0.1:5000/a", want: true},
		{name: "loopback address with a CA", repository: "127.0.0.1:5000/a", secured: true},
		{name: "host name that begins with localhost", repository: "localhost.example/a"},
		{name: "--plain-http", repository: "registry.example/a", plainHTTP: true, want: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			registries := Registries{
				egress: newEgress(new(http.Transport)), plainHTTP: c.plainHTTP, secured: c.secured,
			}
			repository, err := registries.Repository(c.repository)
			if err != nil || repository.PlainHTTP != c.want {
				t.Errorf("got plain HTTP %t, error %v, want %t", repository.PlainHTTP, err, c.want)
			}
		})
	}
}

func TestNewRegistriesRefusesInvalidFiles(t *testing.T) {
	for name, access := range map[string]Access{
		"CA without a certificate":            {CA: []byte("hello")},
		"docker config that is not JSON":      {DockerConfig: []byte("hello")},
		"docker config that is not an object": {DockerConfig: []byte(`[]`)},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := NewRegistries(access); err == nil {
				t.Error("got no error, want an error")
			}
		})
	}
}

func TestCheckRuntimeIDRefusesInvalidIDs(t *testing.T) {
	registries := openRegistries(t)
	for _, id := range []string{"r", "7", "r-17", "a.b_c-d", "6f1c2d9e-0000-4000-8000-000000000017",
		strings.Repeat("a", 63)} {
		t.Run("valid id "+id, func(t *testing.T) {
			if err := trust.CheckRuntimeID(id); err != nil {
				t.Error(err)
			}
			if _, err := registries.Repository("registry.example/" + bundle.DesiredRepository(id)); err != nil {
				t.Error(err)
			}
			if problems := validation.IsValidLabelValue(id); len(problems) > 0 {
				t.Error(problems)
			}
		})
	}
	for name, id := range map[string]string{
		"empty id":                       "",
		"upper-case letter":              "R-17",
		"separator at the start":         "-r",
		"separator at the end":           "r-",
		"single dot":                     ".",
		"path element .. in an ID":       "a/../b",
		"two dots":                       "a..b",
		"two different separators":       "a.-b",
		"slash":                          "a/b",
		"colon":                          "a:b",
		"line feed in the middle":        "a\nb",
		"line feed at the end":           "a\n",
		"space":                          "a b",
		"letter outside ASCII":           "ü",
		"longer than a label value":      strings.Repeat("a", 64),
		"much longer than a label value": strings.Repeat("a", 1<<16),
		"invalid UTF-8":                  "a\xffb",
		"null character":                 "a\x00b",
	} {
		t.Run("invalid id: "+name, func(t *testing.T) {
			if err := trust.CheckRuntimeID(id); err == nil {
				t.Error("got no error, want an error")
			}
		})
	}
}
