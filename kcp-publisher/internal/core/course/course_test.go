package course

import (
	"testing"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

func TestWaveValidationNamesTheInvalidField(t *testing.T) {
	wave := func(name, expression string) fleet.Wave {
		return fleet.Wave{Name: name, Checks: []fleet.Check{{Name: "a", CEL: &fleet.CELCheck{
			APIVersion: "v1", Kind: "ConfigMap", Expression: expression,
		}}}}
	}
	for name, c := range map[string]struct {
		waves         []fleet.Wave
		field, detail string
	}{
		"valid expressions": {[]fleet.Wave{wave("canary", "true"), wave("rest", "objects == []")}, "", ""},
		"error in the second wave": {
			[]fleet.Wave{wave("canary", "true"), wave("rest", "objcts == []")}, "spec.waves[1].checks[0].cel.expression",
			"line 1, column 1: undeclared reference to 'objcts' (in container '')",
		},
		"duplicate wave": {
			[]fleet.Wave{wave("canary", "true"), wave("canary", "true")}, "spec", `waves[1].name: "canary" appears twice`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := Validate(fleet.Course{Waves: c.waves})
			if c.field == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || err.Field != c.field || err.Detail != c.detail {
				t.Errorf("got error %v, want %s: %s", err, c.field, c.detail)
			}
		})
	}
}
