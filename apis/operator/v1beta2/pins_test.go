package v1beta2

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
)

func TestInvalidPinInvalidatesTheAnnotation(t *testing.T) {
	many := make([]string, maxPinnedVersions+1)
	for i := range many {
		many[i] = fmt.Sprintf("m%d=1.0.0", i)
	}
	for name, c := range map[string]struct {
		text string
		want map[string]string
		err  string
	}{
		"empty annotation": {text: "", want: map[string]string{}},
		"one module":       {text: "keda=1.7.0", want: map[string]string{"keda": "1.7.0"}},
		"two modules with white space": {
			text: " keda = 1.7.0,\n istio=1.2.0-rc1 ,", want: map[string]string{"keda": "1.7.0", "istio": "1.2.0-rc1"},
		},
		"module name with a namespace": {
			text: "kyma-system/keda=1.7.0", want: map[string]string{"kyma-system/keda": "1.7.0"},
		},
		"maximum number of modules": {text: strings.Join(many[:maxPinnedVersions], ","), want: nil},
		"too many modules": {
			text: strings.Join(many, ","), err: "more than 500 modules are pinned: pin fewer modules",
		},
		"too many bytes": {
			text: strings.Repeat(" ", maxPinnedVersionsBytes+1),
			err:  "the annotation is 65537 bytes, must be at most 65536: pin fewer modules",
		},
		"missing version": {
			text: "istio=1.2.0,keda", err: `entry "keda": must be MODULE=VERSION, such as keda=1.7.0`,
		},
		"missing module": {
			text: "=1.7.0", err: `entry "=1.7.0": must be MODULE=VERSION, such as keda=1.7.0`,
		},
		"invalid version": {
			text: "keda=latest", err: `entry "keda=latest": must be MODULE=VERSION, such as keda=1.7.0`,
		},
		"version that is too long": {
			text: "keda=1.7.0-" + strings.Repeat("a", maxVersionBytes), err: `entry "keda=1.7.0-`,
		},
		"duplicate module": {
			text: "keda=1.7.0,keda=1.8.0", err: `entry "keda=1.8.0": duplicate module "keda": remove one entry`,
		},
		"entry with control characters": {text: strings.Repeat("\x1b", maxShownBytes+1), err: `entry "\x1b\x1b`},
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

// The modules in this test have the formats that the Kyma dashboard, the kyma CLI and users of kubectl write.
func TestPinsOverrideChannelsAndDashboardVersions(t *testing.T) {
	for name, c := range map[string]struct{ module, pins, want string }{
		"module with a channel": {`{"name":"keda","channel":"fast"}`, "", "fast/"},
		"dashboard sets channel and version": {
			`{"name":"keda","channel":"fast","version":"1.8.0"}`, "", "fast/",
		},
		"dashboard removes the channel but not the version": {
			`{"name":"keda","version":"1.8.0"}`, "", "/",
		},
		"pinned module":         {`{"name":"keda"}`, "istio=1.0.0,keda=1.7.0", "/1.7.0"},
		"pin overrides channel": {`{"name":"keda","channel":"fast"}`, "keda=1.7.0", "/1.7.0"},
		"pin overrides the dashboard's version": {
			`{"name":"keda","channel":"fast","version":"1.8.0"}`, "keda=1.7.0", "/1.7.0",
		},
		"pin of another module":                {`{"name":"keda","channel":"fast"}`, "istio=1.0.0", "fast/"},
		"invalid annotation":                   {`{"name":"keda"}`, "keda", "error"},
		"module without channel, version, pin": {`{"name":"keda"}`, "", "/"},
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
			if spec, err := kyma.RequestedSpec(); err == nil {
				got = spec.Modules[0].Channel + "/" + spec.Modules[0].Pin()
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if kyma.Spec.Modules[0] != before {
				t.Errorf("RequestedSpec changed the module of the Kyma to %+v, want %+v", kyma.Spec.Modules[0], before)
			}
		})
	}
}
