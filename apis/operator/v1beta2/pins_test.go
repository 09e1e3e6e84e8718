package v1beta2

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
)

func TestInvalidPinRejectsTheWholeAnnotation(t *testing.T) {
	many := make([]string, maxPinnedVersions+1)
	for i := range many {
		many[i] = fmt.Sprintf("m%d=1.0.0", i)
	}
	for name, c := range map[string]struct {
		text string
		want map[string]string
		err  string
	}{
		"Nothing":    {text: "", want: map[string]string{}},
		"One module": {text: "keda=1.7.0", want: map[string]string{"keda": "1.7.0"}},
		"Two, with white space": {
			text: " keda = 1.7.0,\n istio=1.2.0-rc1 ,", want: map[string]string{"keda": "1.7.0", "istio": "1.2.0-rc1"},
		},
		"A name with a namespace": {
			text: "kyma-system/keda=1.7.0", want: map[string]string{"kyma-system/keda": "1.7.0"},
		},
		"As many as a bundle has": {text: strings.Join(many[:maxPinnedVersions], ","), want: nil},
		"One more":                {text: strings.Join(many, ","), err: "more than 500 modules: pin fewer"},
		"Too long": {
			text: strings.Repeat(" ", maxPinnedVersionsBytes+1), err: "65537 bytes, at most 65536: pin fewer modules",
		},
		"Missing version": {
			text: "istio=1.2.0,keda", err: `entry "keda": want MODULE=VERSION, such as keda=1.7.0`,
		},
		"Missing module": {
			text: "=1.7.0", err: `entry "=1.7.0": want MODULE=VERSION, such as keda=1.7.0`,
		},
		"An invalid version": {
			text: "keda=latest", err: `entry "keda=latest": want MODULE=VERSION, such as keda=1.7.0`,
		},
		"A version of too many letters": {
			text: "keda=1.7.0-" + strings.Repeat("a", maxVersionBytes), err: `entry "keda=1.7.0-`,
		},
		"One module twice": {
			text: "keda=1.7.0,keda=1.8.0", err: `entry "keda=1.8.0": duplicate module "keda": remove one entry`,
		},
		"An entry of control characters": {text: strings.Repeat("\x1b", maxShownBytes+1), err: `entry "\x1b\x1b`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := PinnedVersions(map[string]string{AnnotationPinnedVersions: c.text})
			switch {
			case c.err != "":
				if want := "metadata.annotations[kyma-pull.dev/pinned-versions]: " + c.err; err == nil ||
					!strings.HasPrefix(err.Error(), want) || len(err.Error()) > 1024 {
					t.Errorf("got %v, want %s", err, want)
				}
			case err != nil || c.want != nil && !maps.Equal(got, c.want):
				t.Errorf("got %v, %v, want %v", got, err, c.want)
			}
		})
	}
}

// TestAskedSpec writes modules as the Kyma dashboard, the kyma CLI and users of kubectl leave them.
func TestAskedSpec(t *testing.T) {
	for name, c := range map[string]struct{ module, pins, want string }{
		"A channel": {`{"name":"keda","channel":"fast"}`, "", "fast/"},
		"The dashboard writes a channel with its version": {
			`{"name":"keda","channel":"fast","version":"1.8.0"}`, "", "fast/",
		},
		"The dashboard returns to the Kyma's channel and leaves the version": {
			`{"name":"keda","version":"1.8.0"}`, "", "/",
		},
		"A pin":                     {`{"name":"keda"}`, "istio=1.0.0,keda=1.7.0", "/1.7.0"},
		"A pin wins over a channel": {`{"name":"keda","channel":"fast"}`, "keda=1.7.0", "/1.7.0"},
		"A pin wins over the version of the dashboard": {
			`{"name":"keda","channel":"fast","version":"1.8.0"}`, "keda=1.7.0", "/1.7.0",
		},
		"A pin of another module":                     {`{"name":"keda","channel":"fast"}`, "istio=1.0.0", "fast/"},
		"An invalid annotation is an error":           {`{"name":"keda"}`, "keda", "error"},
		"A module without channel, version and a pin": {`{"name":"keda"}`, "", "/"},
	} {
		t.Run(name, func(t *testing.T) {
			kyma := &Kyma{Spec: KymaSpec{Channel: "regular", Modules: make([]Module, 1)}}
			if err := json.Unmarshal([]byte(c.module), &kyma.Spec.Modules[0]); err != nil {
				t.Fatal(err)
			}
			if c.pins != "" {
				kyma.Annotations = map[string]string{AnnotationPinnedVersions: c.pins}
			}
			before := kyma.Spec.Modules[0]
			got := "error"
			if spec, err := kyma.Asked(); err == nil {
				got = spec.Modules[0].Channel + "/" + spec.Modules[0].Pin()
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if kyma.Spec.Modules[0] != before {
				t.Errorf("Asked changed the Kyma: %+v", kyma.Spec.Modules[0])
			}
		})
	}
}
