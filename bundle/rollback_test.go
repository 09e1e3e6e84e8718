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
		"installed version is older":   {"1.6.0", nil, false},
		"installed version is equal":   {"1.7.0", nil, false},
		"module is not installed":      {"", nil, false},
		"installed version is invalid": {"main", nil, false},
		"installed version is newer":   {"1.8.0", nil, true},
		"installed version is newer, rollback listed": {
			"1.8.0", []Rollback{{Module: "keda", From: "1.8.0", To: "1.7.0"}}, false,
		},
		"rollback listed from a newer version than installed": {
			"1.8.0", []Rollback{{Module: "keda", From: "1.9.0", To: "1.7.0"}}, false,
		},
		"rollback listed from an older version than installed": {
			"1.9.0", []Rollback{{Module: "keda", From: "1.8.0", To: "1.7.0"}}, true,
		},
		"rollback listed to another version": {
			"1.8.0", []Rollback{{Module: "keda", From: "1.8.0", To: "1.6.0"}}, true,
		},
		"rollback listed for another module": {
			"1.8.0", []Rollback{{Module: "nats", From: "1.8.0", To: "1.7.0"}}, true,
		},
	} {
		b := Bundle{State: DesiredState{Manifests: []Manifest{{Module: "keda", Version: "1.7.0"}}}}
		b.Statement.Predicate.Rollback = c.rollback
		err := Trust{Installed: map[string]string{"keda": c.installed}}.CheckVersions(b)
		refused := refusal.Of(err)
		if (refused != nil) != c.refused || refused != nil && refused.Reason != refusal.Downgrade {
			t.Errorf("%s: got error %v, want refused: %t", name, err, c.refused)
		}
	}
	for name, c := range map[string]struct {
		autonomy string
		offers   []string
		change   func(*Bundle)
		refused  bool
	}{
		"installed version is offered":                  {AutonomyCatalog, []string{"1.7.0", "1.8.0"}, nil, false},
		"installed version is not offered":              {AutonomyCatalog, []string{"1.7.0", "1.9.0"}, nil, true},
		"installed version is offered without autonomy": {"", []string{"1.8.0"}, nil, true},
		"installed version is offered, Kyma is deleted": {AutonomyCatalog, []string{"1.8.0"}, func(b *Bundle) {
			b.Statement.Predicate.Deleting = true
		}, true},
		"installed version is offered in a takeover": {AutonomyCatalog, []string{"1.8.0"}, func(b *Bundle) {
			b.State.Takeover = TakeoverAdopt
		}, true},
	} {
		b := Bundle{State: DesiredState{Manifests: []Manifest{{Module: "keda", Version: "1.7.0"}}}}
		b.State.Settings.Autonomy = c.autonomy
		for _, version := range c.offers {
			b.State.Offers = append(b.State.Offers, Manifest{Module: "keda", Version: version})
		}
		if c.change != nil {
			c.change(&b)
		}
		err := Trust{Installed: map[string]string{"keda": "1.8.0"}}.CheckVersions(b)
		if refused := refusal.Of(err) != nil; refused != c.refused {
			t.Errorf("%s: got error %v, want refused: %t", name, err, c.refused)
		}
	}
	b := Bundle{State: DesiredState{Manifests: []Manifest{{Module: "keda", Version: "1.7.0"}}}}
	if err := (Trust{}).CheckVersions(b); err != nil {
		t.Errorf("without installed versions: got error %v, want no error", err)
	}
}
