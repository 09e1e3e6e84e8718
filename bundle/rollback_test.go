package bundle

import (
	"testing"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

func TestDowngradeRequiresARollbackInTheStatement(t *testing.T) {
	for name, c := range map[string]struct {
		installed string
		rollback  []Rollback
		refused   bool
	}{
		"a newer version":                {"1.6.0", nil, false},
		"the same version":               {"1.7.0", nil, false},
		"a module that is not installed": {"", nil, false},
		"an invalid version":             {"main", nil, false},
		"an older version":               {"1.8.0", nil, true},
		"an older version with a named rollback": {
			"1.8.0", []Rollback{{Module: "keda", From: "1.8.0", To: "1.7.0"}}, false,
		},
		"a named rollback from a newer version than installed": {
			"1.8.0", []Rollback{{Module: "keda", From: "1.9.0", To: "1.7.0"}}, false,
		},
		"a named rollback from an older version than installed": {
			"1.9.0", []Rollback{{Module: "keda", From: "1.8.0", To: "1.7.0"}}, true,
		},
		"a named rollback to another version": {
			"1.8.0", []Rollback{{Module: "keda", From: "1.8.0", To: "1.6.0"}}, true,
		},
		"a named rollback of another module": {
			"1.8.0", []Rollback{{Module: "nats", From: "1.8.0", To: "1.7.0"}}, true,
		},
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
		t.Errorf("without installed versions: %v", err)
	}
}
