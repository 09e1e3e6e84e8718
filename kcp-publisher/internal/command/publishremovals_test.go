package command

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/internal/cli"
	publishcommand "github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/publish"
)

// publishedFleet publishes module keda to the runtimes r-1, r-2 and r-3. The returned function publishes again.
func publishedFleet(t *testing.T) (from, layout string, again func(more ...string) ([]publishcommand.Result, outcome)) {
	t.Helper()
	from, keys := fleetFolder(t), keyFolder(t)
	layout = filepath.Join(t.TempDir(), "layout")
	write(t, filepath.Join(from, "two.yaml"), kymaYAML("two", "r-2", "keda"))
	write(t, filepath.Join(from, "three.yaml"), kymaYAML("three", "r-3", "keda"))
	again = func(more ...string) (rows []publishcommand.Result, o outcome) {
		t.Helper()
		o = run(append([]string{"publish", "--from", from, "--to", "oci-layout:" + layout, "--keys", keys, "-o",
			"json"}, more...)...)
		if o.code != cli.ExitUsage {
			if err := json.Unmarshal([]byte(o.out), &rows); err != nil {
				t.Fatalf("parse the output: %v: %+v", err, o)
			}
		}
		return rows, o
	}
	if _, o := again(); o.code != cli.ExitDone {
		t.Fatalf("first run: got %+v", o)
	}
	return from, layout, again
}

var approvalID = regexp.MustCompile(`with --approve-removals ([0-9a-f]{10})`)

func TestPublishHoldsRemovalsAboveTheLimits(t *testing.T) {
	from, layout, again := publishedFleet(t)
	write(t, filepath.Join(from, "one.yaml"), kymaYAML("one", "r-1"))
	write(t, filepath.Join(from, "two.yaml"), kymaYAML("two", "r-2"))
	write(t, filepath.Join(from, "three.yaml"),
		strings.Replace(kymaYAML("three", "r-3", "keda"), "labels: {",
			"labels: {operator.kyma-project.io/beta: \"true\", ", 1))
	const waits = "the removal of module keda from 2 runtimes (r-1, r-2) waits for approval (FleetShare)"

	index := read(t, filepath.Join(layout, "index.json"))
	if _, o := again("--dry-run"); o.code != cli.ExitFailed || !strings.Contains(o.err, waits) ||
		approvalID.MatchString(o.err) || read(t, filepath.Join(layout, "index.json")) != index {
		t.Errorf("dry run: got %+v, want held removals without an ID", o)
	}
	rows, o := again()
	id := approvalID.FindStringSubmatch(o.err)
	if o.code != cli.ExitFailed || id == nil || !strings.Contains(o.err, waits) || !strings.Contains(o.err,
		"removals of modules from 2 of 3 runtimes wait for approval (r-1, r-2)") {
		t.Fatalf("got %+v, want held removals", o)
	}
	for i, row := range rows {
		if held := i < 2; !slices.Equal(row.Modules, []string{"keda@1.0.0"}) || row.Removals != nil ||
			slices.Equal(row.Held, []string{"keda"}) != held || row.Error != "" {
			t.Errorf("got %+v, want keda kept, held %t", row, held)
		}
	}
	if rows[2].Action != "pushed" {
		t.Errorf("runtime without a removal: got %+v, want a pushed bundle", rows[2])
	}
	if _, o := again(); o.code != cli.ExitFailed || !strings.Contains(o.err, id[0]) {
		t.Errorf("next run: got %+v, want the same ID", o)
	}
	if _, o := again("--approve-removals", "0123456789"); o.code != cli.ExitUsage ||
		!strings.Contains(o.err, "no held removals have ID 0123456789") {
		t.Errorf("unknown ID: got %+v, want a usage error", o)
	}
	rows, o = again("--approve-removals", id[1])
	for _, row := range rows[:2] {
		if o.code != cli.ExitDone || row.Action != "pushed" || !slices.Equal(row.Removals, []string{"keda"}) ||
			len(row.Modules) != 0 {
			t.Errorf("approved removal: got exit code %d, %+v, want keda removed", o.code, row)
		}
	}
	if rows, o := again(); o.code != cli.ExitDone || rows[0].Action != "unchanged" {
		t.Errorf("after the removal: got %+v", o)
	}
	if _, o := again("--approve-removals", id[1]); o.code != cli.ExitUsage {
		t.Errorf("used ID: got %+v, want a usage error", o)
	}
}

func TestPublishCountsRemovalsFromEarlierRuns(t *testing.T) {
	from, _, again := publishedFleet(t)
	write(t, filepath.Join(from, "one.yaml"), kymaYAML("one", "r-1"))
	if rows, o := again(); o.code != cli.ExitDone || !slices.Equal(rows[0].Removals, []string{"keda"}) {
		t.Fatalf("first removal: got %+v, want keda removed", o)
	}
	write(t, filepath.Join(from, "two.yaml"), kymaYAML("two", "r-2"))
	if rows, o := again(); o.code != cli.ExitFailed || !slices.Equal(rows[1].Held, []string{"keda"}) {
		t.Errorf("second removal within the window: got %+v, want a held removal", o)
	}
	if rows, o := again("--removal-window", "0s"); o.code != cli.ExitFailed || len(rows[1].Held) != 1 {
		t.Errorf("held removal with another window: got %+v, want a held removal", o)
	}
	write(t, filepath.Join(from, "two.yaml"), kymaYAML("two", "r-2", "keda"))
	if rows, o := again(); o.code != cli.ExitDone || rows[1].Held != nil {
		t.Errorf("after the module is requested again: got %+v", o)
	}
	write(t, filepath.Join(from, "two.yaml"), kymaYAML("two", "r-2"))
	if rows, o := again("--removal-count", "2"); o.code != cli.ExitDone ||
		!slices.Equal(rows[1].Removals, []string{"keda"}) {
		t.Errorf("removal within a higher limit: got %+v, want keda removed", o)
	}
}

func TestPublishHoldsRemovalsCausedByTheCatalog(t *testing.T) {
	from, _, again := publishedFleet(t)
	catalog := read(t, filepath.Join(from, "catalog.yaml"))
	hidden := strings.Replace(catalog, "  moduleName: keda\n", "  moduleName: keda\n  beta: true\n", 1)
	if hidden == catalog {
		t.Fatalf("the catalog has no ModuleReleaseMeta of keda:\n%s", catalog)
	}
	write(t, filepath.Join(from, "catalog.yaml"), hidden)
	rows, o := again("--allow-unresolved")
	for _, row := range rows {
		if o.code != cli.ExitFailed || !slices.Equal(row.Held, []string{"keda"}) || len(row.Modules) != 1 {
			t.Errorf("hidden module: got exit code %d, %+v, want a held removal", o.code, row)
		}
	}
	if rows, o := again("--allow-unresolved", "--removal-count", "3"); !slices.Equal(rows[0].Held, []string{"keda"}) {
		t.Errorf("higher limit: got %+v, want the earlier decision", o)
	}
}

func TestPublishWithoutAStateFileHoldsRemovalsToo(t *testing.T) {
	from, layout, again := publishedFleet(t)
	write(t, filepath.Join(from, "one.yaml"), kymaYAML("one", "r-1"))
	write(t, filepath.Join(from, "two.yaml"), kymaYAML("two", "r-2"))
	state := filepath.Join(t.TempDir(), "state.json")
	index := read(t, filepath.Join(layout, "index.json"))
	rows, o := again("--state", state)
	if o.code != cli.ExitFailed || rows[0].Action != "failed" || rows[1].Action != "failed" ||
		!strings.Contains(rows[0].Error, "removal of modules waits for approval: keda") ||
		rows[2].Action != "unchanged" || read(t, filepath.Join(layout, "index.json")) != index {
		t.Errorf("lost state file: got %+v, want a held removal", o)
	}
	id := approvalID.FindStringSubmatch(o.err)
	if id == nil {
		t.Fatalf("lost state file: got %+v, want an ID", o)
	}
	if rows, o := again("--state", state, "--approve-removals", id[1]); o.code != cli.ExitDone ||
		!slices.Equal(rows[0].Removals, []string{"keda"}) {
		t.Errorf("approved removal: got %+v, want keda removed", o)
	}
}
