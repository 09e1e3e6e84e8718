package control

import (
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestOnlyWhatIsLostOtherwiseIsWrittenBeforeItsBundle(t *testing.T) {
	with := func(thumbprint string, sequence int64, secrets ...string) *v1beta2.RuntimeStatus {
		s := &v1beta2.RuntimeStatus{ReportSequence: sequence, Secrets: secrets}
		if thumbprint != "" {
			s.Key = &v1beta2.RuntimeKey{Thumbprint: thumbprint}
		}
		return s
	}
	takenOver := func(adopted bool) *v1beta2.RuntimeStatus {
		s := with("a", 1)
		s.Takeover = &v1beta2.TakeoverStatus{Modules: []v1beta2.InheritedModule{{Name: "keda", Version: "1.7.0", Adopted: adopted}}}
		return s
	}
	for name, c := range map[string]struct {
		before, after *v1beta2.RuntimeStatus
		want          bool
	}{
		"nothing is known":                  {nil, nil, false},
		"a runtime without a key was heard": {nil, with("", 1), false},
		"a runtime enrolled":                {nil, with("a", 1), true},
		"it introduced another key":         {with("a", 1), with("b", 2), true},
		"it said something":                 {with("a", 1, "x"), with("a", 2, "x"), false},
		"it is to get a Secret":             {with("a", 1), with("a", 1, "x"), true},
		"it is taken over":                  {with("a", 1), takenOver(false), true},
		"it adopted a module":               {takenOver(false), takenOver(true), true},
		"it is as far as it was":            {takenOver(true), takenOver(true), false},
		"it has a Secret less":              {with("a", 1, "x", "y"), with("a", 1, "x"), true},
	} {
		if got := hasToBeRemembered(c.before, c.after); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
