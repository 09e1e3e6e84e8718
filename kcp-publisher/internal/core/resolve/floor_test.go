package resolve

import (
	"slices"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

func TestModulesNeverGoBelowTheirMinimumVersion(t *testing.T) {
	undo := func(of string) rollout.Decision { return rollout.Decision{Version: "1.0.0", ReplacedVersion: of} }
	for name, c := range map[string]struct {
		kept     bool // the last bundle can be read and contains keda 1.0.0
		gate     *rollout.Decision
		versions map[string]string
		manifest string
		known    string
		running  string
	}{
		"module without a recorded version": {versions: nil, manifest: "1.0.0", known: "1.0.0"},
		"older version recorded": {
			versions: map[string]string{"keda": "0.9.0"}, manifest: "1.0.0", known: "1.0.0",
		},
		"newer version recorded, last bundle unknown": {
			versions: map[string]string{"keda": "1.1.0"}, manifest: "1.1.0", known: "1.1.0",
		},
		"newer version recorded, older version in the last bundle": {
			kept: true, versions: map[string]string{"keda": "1.1.0"}, manifest: "1.1.0", known: "1.1.0",
		},
		"newer version recorded, which the catalog does not have": {
			kept: true, versions: map[string]string{"keda": "1.3.0"}, manifest: "", known: "1.3.0",
		},
		"rollout rolls the newer version back": {
			gate: new(undo("1.1.0")), versions: map[string]string{"keda": "1.1.0"}, manifest: "1.0.0", known: "1.0.0",
		},
		"rollout rolls back a different version": {
			gate: new(undo("1.1.0")), versions: map[string]string{"keda": "1.2.0"}, manifest: "", known: "1.2.0",
		},
		"newer version failed, requested version still runs": {
			versions: map[string]string{"keda": "1.1.0"}, running: "1.0.0", manifest: "1.0.0", known: "1.0.0",
		},
		"newer version failed, a different version still runs": {
			versions: map[string]string{"keda": "1.1.0"}, running: "1.0.1", manifest: "1.1.0", known: "1.1.0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := usualWorld()
			if c.kept {
				w.published(t)
			}
			w.request.Versions = c.versions
			if c.running != "" {
				w.request.RunningVersions = map[string]string{"keda": c.running}
			}
			if c.gate != nil {
				w.request.Gates = map[rollout.Track]rollout.Decision{{Module: "keda", Channel: "regular"}: *c.gate}
			}
			got := w.resolve(t)
			version := ""
			if len(got.State.Manifests) > 0 {
				version = got.State.Manifests[0].Version
			}
			if version != c.manifest || got.Versions["keda"] != c.known {
				t.Errorf("got manifest %q, versions %v, want %q, %q", version, got.Versions, c.manifest, c.known)
			}
			if stays := c.known != "1.0.0"; stays &&
				(len(got.State.Problems) != 1 ||
					!strings.Contains(got.State.Problems[0].Message, "stays at version "+c.known)) {
				t.Errorf("got problems %+v, want one about version %s", got.State.Problems, c.known)
			}
		})
	}
}

// TestOnlyNeededComponentsAreRead checks that the publisher reads the component of a module's installed version only if
// the next bundle needs a new manifest of this version.
func TestOnlyNeededComponentsAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		channel   string
		published string // the channel in the last bundle
		versions  map[string]string
		want      []string
	}{
		"upgrade": {channel: "fast", published: "regular", want: []string{"1.1.0"}},
		"upgrade without last bundle": {
			channel: "fast", versions: map[string]string{"keda": "1.0.0"}, want: []string{"1.1.0"},
		},
		"downgrade, installed version in the last bundle": {
			channel: "regular", published: "fast", want: []string{"1.0.0"},
		},
		"downgrade without last bundle": {
			channel: "regular", versions: map[string]string{"keda": "1.1.0"}, want: []string{"1.0.0", "1.1.0"},
		},
		"unknown channel": {channel: "missing", published: "regular"},
		"unknown channel without last bundle": {
			channel: "missing", versions: map[string]string{"keda": "1.0.0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := usualWorld()
			if c.published != "" {
				w.channel(c.published).published(t)
			}
			w.channel(c.channel).request.Versions = c.versions
			var got []string
			for _, need := range ListNeeds(w.request, w.snapshot(t)) {
				got = append(got, need.Version)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got versions %v, want %v", got, c.want)
			}
		})
	}
}
