package bundle

import (
	"testing"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

func TestNoModuleGoesBackUnlessTheStatementSaysSo(t *testing.T) {
	for name, c := range map[string]struct {
		installed string
		rollback  []Rollback
		refused   bool
	}{
		"a newer version":                        {"1.6.0", nil, false},
		"the same version":                       {"1.7.0", nil, false},
		"a module that is not there":             {"", nil, false},
		"what is no version":                     {"main", nil, false},
		"an older version":                       {"1.8.0", nil, true},
		"an older version, and that is said":     {"1.8.0", []Rollback{{Module: "keda", From: "1.8.0", To: "1.7.0"}}, false},
		"from a newer one than is there":         {"1.8.0", []Rollback{{Module: "keda", From: "1.9.0", To: "1.7.0"}}, false},
		"from an older one than is there":        {"1.9.0", []Rollback{{Module: "keda", From: "1.8.0", To: "1.7.0"}}, true},
		"to another version than the bundle has": {"1.8.0", []Rollback{{Module: "keda", From: "1.8.0", To: "1.6.0"}}, true},
		"of another module":                      {"1.8.0", []Rollback{{Module: "nats", From: "1.8.0", To: "1.7.0"}}, true},
	} {
		b := Bundle{State: DesiredState{Manifests: []Manifest{{Module: "keda", Version: "1.7.0"}}}}
		b.Statement.Predicate.Rollback = c.rollback
		err := Trust{Installed: map[string]string{"keda": c.installed}}.CheckVersions(b)
		refused := refusal.Of(err)
		if (refused != nil) != c.refused || refused != nil && refused.Reason != refusal.Downgrade {
			t.Errorf("%s: got %v", name, err)
		}
	}
	b := Bundle{State: DesiredState{Manifests: []Manifest{{Module: "keda", Version: "1.7.0"}}}}
	if err := (Trust{}).CheckVersions(b); err != nil {
		t.Errorf("where nothing is known of the runtime: %v", err)
	}
}
