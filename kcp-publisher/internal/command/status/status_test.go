package status

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

var update = flag.Bool("update", false, "update the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want, err := os.ReadFile(path); err != nil || got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}

func sickFleet() fleet.Fleet {
	ago := func(d time.Duration) *time.Time { return new(noon.Add(-d)) }
	module := func(name, version string, state v1beta2.State, message string) fleet.RuntimeModule {
		return fleet.RuntimeModule{
			Name: name, Channel: "regular", Version: version, Asked: "1.7.0", State: state, Message: message,
		}
	}
	ready := []fleet.RuntimeModule{
		module("mailer", "1.0.0", v1beta2.StateReady, ""), module("scaler", "1.7.0", v1beta2.StateReady, ""),
	}
	broken := []fleet.RuntimeModule{
		module("mailer", "1.0.0", v1beta2.StateReady, ""),
		module("scaler", "1.6.0", v1beta2.StateError, "crashes\x1b[2J at once"),
	}
	all := []fleet.Runtime{
		{ID: "berlin", Health: fleet.Failing, State: v1beta2.StateError, Since: ago(3 * time.Minute),
			LastReport: ago(time.Hour), Reporting: true, Published: 12, InForce: 12,
			Agent: "1.0.0", Kubernetes: "v1.36.3", Modules: broken, Cause: &fleet.Cause{Situation: fleet.ModuleBroken,
				Message: "module scaler is Error: crashes\x1b[2J at once, and it says so at such a length that no " +
					"table of eighty columns can hold it",
				Advice: "look at the module's operator in the runtime, and at `kcp-publisher why berlin scaler`"}},
		{ID: "cairo", Health: fleet.Failing, State: v1beta2.StateError, Since: ago(time.Minute),
			LastReport: ago(time.Hour), Reporting: true, Published: 12, InForce: 12, Modules: broken,
			Cause: &fleet.Cause{Situation: fleet.ModuleBroken, Message: "module scaler is Error: crashes"}},
		{
			ID: "delhi", Health: fleet.Healthy, State: v1beta2.StateReady, LastReport: ago(time.Hour), Reporting: true,
			Published: 12, InForce: 12, Modules: ready,
		},
		{ID: "lima", Health: fleet.Silent, State: v1beta2.StateError, Since: ago(50 * time.Hour),
			LastReport: ago(51 * time.Hour), Published: 12, InForce: 11, Modules: ready,
			Cause: &fleet.Cause{
				Situation: fleet.SilentRuntime, Message: "the runtime was not heard for 51h0m0s",
				Advice: "look whether its agent runs",
			}},
		{ID: "oslo", Health: fleet.Behind, State: v1beta2.StateProcessing, LastReport: ago(time.Hour), Reporting: true,
			Published: 13, InForce: 12, Modules: ready,
			Cause: &fleet.Cause{
				Situation: fleet.BundlePending, Message: "waiting for the runtime to report bundle 13",
			}},
		{
			ID: "quito", Health: fleet.Suspended, State: v1beta2.StateReady, LastReport: ago(time.Hour),
			Modules: ready[:1], Cause: &fleet.Cause{Situation: fleet.Suspension, Message: "it is suspended"},
		},
		{ID: "rome", Health: fleet.NeverReported, Modules: nil,
			Cause: &fleet.Cause{Situation: fleet.NeverEnrolled, Message: "the runtime has never reported",
				Advice: "enroll it: kcp-publisher enroll rome"}},
	}
	f := fleet.Fleet{
		Time: noon, Runtimes: all, Warnings: []fleet.Cause{
			{
				Situation: fleet.RootExpiresSoon, Message: "the root of trust expires at 2026-05-20T00:00:00Z",
				Advice: "renew it",
			},
		},
	}
	f.Summary = fleet.Summary{Total: len(all), Health: map[fleet.Health]int{}}
	for i := range all {
		r := &all[i]
		r.Namespace, r.Kyma, r.Channel = "kcp-system", r.ID, "regular"
		f.Summary.Health[r.Health]++
	}
	active := v1alpha1.RolloutStatus{
		State: v1alpha1.RolloutProgressing, Wave: "2/2 others", Progress: "5/12", Failed: 2,
	}
	f.Rollouts = []fleet.Rollout{
		{Name: "keda-regular-1", Spec: v1alpha1.RolloutSpec{From: "1.0.0", To: "2.0.0"}, Status: active, Active: true},
		{Name: "done", Status: v1alpha1.RolloutStatus{State: v1alpha1.RolloutSucceeded}},
	}
	return f
}

func shown(t *testing.T, f fleet.Fleet, flags statusFlags) (string, error) {
	t.Helper()
	if flags.format == "" {
		flags.format = "table"
	}
	flags.Namespace = controlplane.DefaultNamespace
	var out bytes.Buffer
	err := flags.print(&out, f)
	return out.String(), err
}

func TestStatusShowsTheWorstProblemsFirst(t *testing.T) {
	for name, flags := range map[string]statusFlags{
		"whole.txt":       {},
		"wide.txt":        {format: formatWide},
		"failing.txt":     {runtimeFilter: runtimeFilter{failing: true}},
		"module.txt":      {runtimeFilter: runtimeFilter{module: "scaler"}},
		"runtime.txt":     {runtimeFilter: runtimeFilter{runtime: "berlin"}},
		"never-heard.txt": {runtimeFilter: runtimeFilter{runtime: "rome"}},
		"name.txt":        {format: formatName, runtimeFilter: runtimeFilter{silent: true}},
		"runtime.yaml":    {format: "yaml", runtimeFilter: runtimeFilter{runtime: "oslo"}},
		"nobody.txt":      {runtimeFilter: runtimeFilter{version: "9.9.9"}},
		"everywhere.txt":  {Flags: controlplane.Flags{Everywhere: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := shown(t, sickFleet(), flags)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, "status/"+name, got)
			if strings.Contains(got, "\x1b") {
				t.Error("output contains control characters")
			}
			if strings.Contains(got, "…") {
				t.Errorf("output is cut, although it is not a terminal:\n%s", got)
			}
		})
	}
}

func TestStatusListsOnlyUnhealthyRuntimesInALargeFleet(t *testing.T) {
	f := fleet.Assess(fleet.Input{Now: noon})
	if got, err := shown(t, f, statusFlags{}); err != nil ||
		got != "no runtimes in namespace kcp-system: create a Kyma to add one\n" {
		t.Errorf("got %q, %v", got, err)
	}
	for n := range 41 {
		f.Runtimes = append(f.Runtimes, fleet.Runtime{ID: fmt.Sprintf("r-%02d", n), Health: fleet.Healthy})
	}
	f.Runtimes = append(f.Runtimes, fleet.Runtime{ID: "s", Health: fleet.Behind})
	f.Summary = fleet.Summary{Total: 42, Health: map[fleet.Health]int{fleet.Healthy: 41, fleet.Behind: 1}}
	want := "0 of 42 runtimes need attention: 1 behind, 41 healthy\n\nRUNTIME  HEALTH  SINCE  MODULES  " +
		"MESSAGE\ns        Behind         0/0\n\n41 healthy runtimes not listed: use --all\n"
	if got, err := shown(t, f, statusFlags{}); err != nil || got != want {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := shown(t, f, statusFlags{all: true}); err != nil || strings.Count(got, "\nr-") != 41 {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestStatusExitCodeDependsOnFleetHealth(t *testing.T) {
	for name, c := range map[string]struct {
		flags statusFlags
		want  error
	}{
		"fleet without --exit-code":             {statusFlags{}, nil},
		"fleet with unhealthy runtimes":         {statusFlags{exitCode: true}, ErrUnhealthy},
		"fleet with unhealthy runtimes in JSON": {statusFlags{exitCode: true, format: "json"}, ErrUnhealthy},
		"runtime that is behind": {
			statusFlags{exitCode: true, runtimeFilter: runtimeFilter{runtime: "oslo"}}, nil,
		},
		"silent runtime": {
			statusFlags{exitCode: true, runtimeFilter: runtimeFilter{runtime: "lima"}}, ErrUnhealthy,
		},
		"filter for runtimes that are behind": {
			statusFlags{exitCode: true, runtimeFilter: runtimeFilter{behind: true}}, nil,
		},
	} {
		if _, err := shown(t, sickFleet(), c.flags); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := shown(t, fleet.Fleet{}, statusFlags{exitCode: true, selector: "region=moon"}); !errors.Is(err,
		ErrNoRuntimes) {
		t.Errorf("selector without runtimes: got %v", err)
	}
	if _, err := shown(t, fleet.Fleet{}, statusFlags{}); err != nil {
		t.Errorf("empty fleet without --exit-code: got %v", err)
	}
	if _, err := shown(t, sickFleet(), statusFlags{runtimeFilter: runtimeFilter{runtime: "berln"}}); err == nil ||
		err.Error() != "runtime berln: no Kyma in namespace kcp-system has that runtime ID or name: did you mean "+
			"berlin?" {
		t.Errorf("unknown runtime: got %v", err)
	}
}

func TestStatusRefusesUnknownModule(t *testing.T) {
	all := []fleet.Module{{Name: "mailer"}, {Name: "scaler"}}
	for module, want := range map[string]string{
		"": "", "scaler": "",
		"nope":   "--module nope is not in any channel or runtime in namespace kcp-system",
		"scalar": "--module scalar is not in any channel or runtime in namespace kcp-system: did you mean scaler?",
	} {
		f := statusFlags{
			Flags: controlplane.Flags{Namespace: controlplane.DefaultNamespace}, runtimeFilter: runtimeFilter{module: module},
		}
		got := ""
		if err := f.checkModuleExists(all); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("--module %q: got %q, want %q", module, got, want)
		}
	}
}

func TestFiltersSelectRuntimes(t *testing.T) {
	for name, c := range map[string]struct {
		filter runtimeFilter
		want   string
	}{
		"runtimes without a filter":      {runtimeFilter{}, "berlin cairo lima rome oslo quito delhi"},
		"failing runtimes":               {runtimeFilter{failing: true}, "berlin cairo"},
		"runtimes by health":             {runtimeFilter{health: "Suspended,Healthy"}, "quito delhi"},
		"runtimes by health and flag":    {runtimeFilter{health: "Suspended", failing: true}, "berlin cairo quito"},
		"failing or behind runtimes":     {runtimeFilter{failing: true, behind: true}, "berlin cairo oslo"},
		"silent or unreported runtimes":  {runtimeFilter{silent: true}, "lima rome"},
		"runtimes with a module":         {runtimeFilter{module: "scaler"}, "berlin cairo lima oslo delhi"},
		"version of the selected module": {runtimeFilter{module: "scaler", version: "1.6.0"}, "berlin cairo"},
		"version of any module":          {runtimeFilter{version: "1.0.0"}, "berlin cairo lima oslo quito delhi"},
		"silent runtimes with a module":  {runtimeFilter{silent: true, module: "scaler"}, "lima"},
		"another module's version":       {runtimeFilter{module: "mailer", version: "1.6.0"}, ""},
	} {
		var got []string
		for _, r := range c.filter.filterRuntimes(sickFleet().Runtimes) {
			got = append(got, r.ID)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %v, want %s", name, got, c.want)
		}
	}
	same := []fleet.Runtime{{ID: "a", Kyma: "b"}, {ID: "b", Kyma: "c"}}
	for argument, want := range map[string]string{"a": "b", "kyma/b": "b", "c": "c", "kyma/c": "c"} {
		if got := (&runtimeFilter{runtime: argument}).filterRuntimes(same); len(got) != 1 || got[0].Kyma != want {
			t.Errorf("runtime %s: got %+v, want Kyma %s", argument, got, want)
		}
	}
	f := statusFlags{runtimeFilter: runtimeFilter{runtime: "b"}, format: "table"}
	err := f.print(&bytes.Buffer{}, fleet.Fleet{Runtimes: same})
	if err == nil || !strings.Contains(err.Error(), "kyma/b") {
		t.Errorf("ID of a runtime and name of another Kyma: got %v", err)
	}
}

func TestStatusListsVersionsIfNoRuntimeRunsTheRequestedOne(t *testing.T) {
	for name, c := range map[string]struct {
		filter runtimeFilter
		want   string
	}{
		"version of a tag": {runtimeFilter{module: "scaler", version: "v1.6.0"},
			"no runtime runs version v1.6.0; the versions are 1."},
		"version that other runtimes run": {runtimeFilter{module: "scaler", version: "1.6.0"}, ""},
		"no version":                      {runtimeFilter{failing: true}, ""},
	} {
		got := c.filter.otherVersions(sickFleet().Runtimes)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestStatusWatchPrintsChanges(t *testing.T) {
	f, now := statusFlags{format: "table", runtimeFilter: runtimeFilter{failing: true}}, sickFleet()
	before := indexByKyma(f.filterRuntimes(now.Runtimes))
	delete(before, "kcp-system/cairo") // cairo was healthy before
	before["kcp-system/delhi"] = fleet.Runtime{
		ID: "delhi", Namespace: "kcp-system", Kyma: "delhi", Health: fleet.Failing,
	}
	before["kcp-system/gone"] = fleet.Runtime{ID: "gone", Namespace: "kcp-system", Kyma: "gone", Health: fleet.Failing}
	var out bytes.Buffer
	if err := f.printChanges(&out, before, now); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	slices.Sort(lines)
	want := []string{
		"12:00:00  cairo  Failing  1/2  module scaler is Error: crashes",
		"12:00:00  delhi  Healthy (no longer selected)  2/2",
		"12:00:00  gone  Failing (its Kyma was deleted)  0/0",
	}
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got lines %q", lines)
	}
	out.Reset()
	f.format = "json"
	if err := f.printChanges(&out, map[string]fleet.Runtime{}, now); err != nil {
		t.Fatal(err)
	}
	decoder, printed := json.NewDecoder(&out), 0
	for {
		var r fleet.Runtime
		if err := decoder.Decode(&r); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		printed++
	}
	if printed != 2 {
		t.Errorf("got %d runtimes, want 2", printed)
	}
}
