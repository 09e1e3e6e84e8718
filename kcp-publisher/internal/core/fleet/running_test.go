package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func runningWorld(modules ...string) *v1beta2.Kyma {
	kyma := &v1beta2.Kyma{Status: v1beta2.KymaStatus{ActiveChannel: "regular", State: v1beta2.StateReady,
		Runtime: &v1beta2.RuntimeStatus{ID: "one", Observed: &v1beta2.ObservedBundle{
			Sequence: 6, AgentVersion: "v1", KubernetesVersion: "v1.36.3",
		},
			Published: &v1beta2.PublishedBundle{Sequence: 7, Versions: map[string]string{"mandatory": "2.0.0"}}}}}
	for _, name := range modules {
		kyma.Status.Runtime.Published.Versions[name] = "1.0.0"
		kyma.Status.Modules = append(kyma.Status.Modules, v1beta2.ModuleStatus{
			Name: name, Version: "1.0.0", State: v1beta2.StateReady,
		})
	}
	return kyma
}

func TestRunningColumnListsModulesOfHealthyRuntimes(t *testing.T) {
	many := make([]string, 100)
	for i := range many {
		many[i] = fmt.Sprintf("module-%d", i)
	}
	change := func(f func(*v1beta2.Kyma)) *v1beta2.Kyma {
		kyma := runningWorld("keda", "mail")
		f(kyma)
		return kyma
	}
	for name, c := range map[string]struct {
		kyma *v1beta2.Kyma
		want string
	}{
		"runtime with two modules": {runningWorld("keda", "mail"), "7:keda=1.0.0,mail=1.0.0"},
		"runtime without a module": {runningWorld(), "7"},
		"unmanaged module": {
			change(func(k *v1beta2.Kyma) { k.Status.Modules[1].State = v1beta2.StateUnmanaged }),
			"7:keda=1.0.0,mail=1.0.0=Unmanaged",
		},
		"unmanaged module without a version": {
			change(func(k *v1beta2.Kyma) { k.Status.Modules[0].State, k.Status.Modules[0].Version = "Unmanaged", "" }),
			"7:keda==Unmanaged,mail=1.0.0",
		},
		"module with an older version": {change(func(k *v1beta2.Kyma) { k.Status.Modules[1].Version = "0.9.0" }), ""},
		"module in state Warning": {
			change(func(k *v1beta2.Kyma) { k.Status.Modules[1].State = v1beta2.StateWarning }), "",
		},
		"module with an invalid name": {
			change(func(k *v1beta2.Kyma) { k.Status.Modules[1].Name = "a=b" }), "",
		},
		"runtime with more modules than the limit": {runningWorld(many...), ""},
		"Kyma without a published bundle": {
			change(func(k *v1beta2.Kyma) { k.Status.Runtime.Published = nil }), "",
		},
	} {
		got := RunningModules(c.kyma)
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		if got == "" {
			continue
		}
		sequence, modules, ok := readRunning(got)
		want := Judge(c.kyma, Rollouts{}, noon).Modules
		same := func(a, b RuntimeModule) bool {
			return a.Name == b.Name && a.Version == b.Version && a.State == b.State
		}
		if !ok || sequence != "7" || !slices.EqualFunc(modules, want, same) {
			t.Errorf("%s: readRunning returned %s, %+v, %t, want 7 and %+v", name, sequence, modules, ok, want)
		}
	}
}

func TestIncompleteTableRowIsNotListed(t *testing.T) {
	whole := Row{
		Name: "one", Runtime: "one", State: "Ready", HealthyUntil: "2026-05-05T12:00:00Z", Running: "7:keda=1.0.0",
		Channel: "regular", Published: "7", InForce: "6",
	}
	if r, listed := whole.RuntimeWithModules(noon); !listed || len(r.Modules) != 1 || r.Modules[0].Version != "1.0.0" ||
		r.Published != 7 || r.InForce != 6 || r.Channel != "regular" {
		t.Fatalf("complete row: got runtime %+v and listed %t, want one module of bundle 7", r, listed)
	}
	for name, change := range map[string]func(*Row){
		"row without HealthyUntil":                  func(r *Row) { r.HealthyUntil = "" },
		"row without Running":                       func(r *Row) { r.Running = "" },
		"row with Running for another bundle":       func(r *Row) { r.Published = "8" },
		"row without a channel":                     func(r *Row) { r.Channel = "" },
		"row with an unknown module state":          func(r *Row) { r.Running = "7:keda=1.0.0=Resting" },
		"row with a module without a version":       func(r *Row) { r.Running = "7:keda" },
		"row with an invalid sequence in Published": func(r *Row) { r.Running, r.Published = "x", "x" },
		"row with an invalid sequence in InForce":   func(r *Row) { r.InForce = "x" },
	} {
		row := whole
		change(&row)
		if _, listed := row.RuntimeWithModules(noon); listed {
			t.Errorf("%s: the row is listed", name)
		}
	}
}

func TestRolloutStateDeterminesWhetherVersionsAreHeld(t *testing.T) {
	for state, want := range map[v1alpha1.RolloutState][2]bool{ // for a runtime with 1.0.0, and with the promoted 1.1.0
		v1alpha1.RolloutSucceeded: {false, false}, v1alpha1.RolloutProgressing: {true, false},
		v1alpha1.RolloutStopped: {true, false}, v1alpha1.RolloutRolledBack: {true, true},
	} {
		rollouts := NewRollouts(newWorld(t).rollout(state).rollouts)
		for i, version := range []string{"1.0.0", "1.1.0"} {
			r := Runtime{Modules: []RuntimeModule{{Name: "mail", Version: "1.0.0"}, {Name: "keda", Version: version}}}
			if got := rollouts.MayHold(&r); got != want[i] {
				t.Errorf("%s rollout, version %s: got %t, want %t", state, version, got, want[i])
			}
		}
		if rollouts.MayHold(&Runtime{Modules: []RuntimeModule{{Name: "mail", Version: strings.Repeat("1", 3)}}}) {
			t.Errorf("%s rollout holds a version of another module", state)
		}
	}
}
