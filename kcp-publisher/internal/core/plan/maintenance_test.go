package plan

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/window"
)

func TestLabelsAndAnnotationSelectWindows(t *testing.T) {
	policy, err := window.Parse([]byte(`{"rules": [
		{"match": {"plan": "^trial$"}, "windows": [{"days": ["Mon"], "begin": "01:00:00Z", "end": "02:00:00Z"}]},
		{"match": {"region": "^eu-"}, "windows": [{"days": ["Tue"], "begin": "01:00:00Z", "end": "02:00:00Z"}]},
		{"match": {"platformRegion": "^cf-eu"}, "windows": [{"days": ["Wed"], "begin": "01:00:00Z", "end": "02:00:00Z"}]},
		{"match": {"globalAccountID": "^acme$"}, "windows": [{"days": ["Thu"], "begin": "01:00:00Z", "end": "02:00:00Z"}]}],
		"default": {"days": ["Sun"], "begin": "01:00:00Z", "end": "02:00:00Z"}}`))
	if err != nil {
		t.Fatal(err)
	}
	const byDefault = `,"default":{"days":["Sun"],"begin":"01:00:00Z","end":"02:00:00Z"},"minimum":"20m0s"}`
	on := func(day string) string {
		return `{"windows":[{"days":["` + day + `"],"begin":"01:00:00Z","end":"02:00:00Z"}]` + byDefault
	}
	for name, c := range map[string]struct {
		policy *window.Policy
		label  string
		value  string
		own    string
		want   string
	}{
		"Policy matches the plan":            {&policy, "kyma-project.io/broker-plan-name", "trial", "", on("Mon")},
		"Policy matches the region":          {&policy, "kyma-project.io/region", "eu-central-1", "", on("Tue")},
		"Policy matches the platform region": {&policy, "kyma-project.io/platform-region", "cf-eu10", "", on("Wed")},
		"Policy matches the global account":  {&policy, "kyma-project.io/global-account-id", "acme", "", on("Thu")},
		"Label without a rule uses the default": {
			&policy, "kyma-project.io/subaccount-id", "acme", "", `{"windows":[]` + byDefault,
		},
		"Annotation overrides the policy": {
			&policy, "kyma-project.io/region", "eu-1", `[{"days":["Fri"],"begin":"01:00:00Z","end":"02:00:00Z"}]`,
			`{"windows":[{"days":["Fri"],"begin":"01:00:00Z","end":"02:00:00Z"}],"minimum":"20m0s"}`,
		},
		"Annotation without a policy": {
			nil, "kyma-project.io/region", "eu-1", `[]`, `{"windows":[],"minimum":"20m0s"}`,
		},
		"Neither annotation nor policy": {nil, "kyma-project.io/region", "eu-1", "", "null"},
	} {
		t.Run(name, func(t *testing.T) {
			kyma := kymaOf("one")
			kyma.Labels = map[string]string{c.label: c.value}
			if c.own != "" {
				kyma.Annotations = map[string]string{v1beta2.AnnotationMaintenanceWindows: c.own}
			}
			schedule, err := Maintenance{Policy: c.policy, Minimum: 20 * time.Minute}.Schedule(kyma)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(schedule)
			if err != nil || string(got) != c.want {
				t.Errorf("got %s, %v, want %s", got, err, c.want)
			}
		})
	}
}

func TestInvalidWindowsAreRefused(t *testing.T) {
	kyma := kymaOf("one")
	kyma.Annotations = map[string]string{v1beta2.AnnotationMaintenanceWindows: exampleWindows}
	if _, err := (Maintenance{}).Schedule(kyma); err != nil {
		t.Errorf("the example in the error is invalid: %v", err)
	}
	for _, text := range []string{"", "null", "Sat", `[{"days":["Sat"],"begin":"21:00","end":"22:00:00Z"}]`} {
		kyma.Annotations = map[string]string{v1beta2.AnnotationMaintenanceWindows: text}
		schedule, err := Maintenance{}.Schedule(kyma)
		if err == nil || schedule != nil ||
			!strings.HasPrefix(err.Error(), "annotation kyma-pull.dev/maintenance-windows: ") ||
			!strings.HasSuffix(err.Error(), "must be a JSON list such as "+exampleWindows) {
			t.Errorf("annotation %q: got schedule %+v, %v, want an error", text, schedule, err)
		}
		if _, err := (Rules{}).Request(kyma, nil); err == nil {
			t.Errorf("annotation %q: the request is accepted", text)
		}
	}
}
