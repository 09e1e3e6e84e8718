package command

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/flagset"
	publishcommand "github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/publish"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
)

func kymaYAML(name, id string, modules ...string) string {
	text := "apiVersion: operator.kyma-project.io/v1beta2\nkind: Kyma\nmetadata: {name: " + name +
		", namespace: kcp-system, labels: {kyma-project.io/runtime-id: " + id + "}}\n" +
		"spec:\n  channel: regular\n  modules:\n"
	for _, m := range modules {
		text += "  - name: " + m + "\n"
	}
	return text
}

func fleetFolder(t *testing.T) string {
	t.Helper()
	from := t.TempDir()
	writeArchive(t, filepath.Join(from, "components"), "kyma-project.io/module/keda", "1.0.0")
	write(t, filepath.Join(from, "catalog.yaml"), catalogYAML)
	write(t, filepath.Join(from, "one.yaml"), kymaYAML("one", "r-1", "keda"))
	write(t, filepath.Join(from, "two.yaml"), kymaYAML("two", "r-2", "keda", "nope"))
	return from
}

func publishTo(t *testing.T, from, layout, keys string) []publishcommand.Result {
	t.Helper()
	var rows []publishcommand.Result
	if err := json.Unmarshal([]byte(mustRun(t, "publish", "--from", from, "--to", "oci-layout:"+layout, "--keys", keys,
		"--allow-unresolved", "-o", "json")), &rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

func TestPublishingTwicePushesOnce(t *testing.T) {
	from, layout, keys := fleetFolder(t), filepath.Join(t.TempDir(), "layout"), keyFolder(t)
	first := publishTo(t, from, layout, keys)
	if len(first) != 2 || first[0].Runtime != "r-1" || first[1].Runtime != "r-2" {
		t.Fatalf("got bundles %+v, want one for r-1 and one for r-2", first)
	}
	for _, row := range first {
		if row.Action != "pushed" || !slices.Equal(row.Modules, []string{"keda@1.0.0"}) || row.Error != "" {
			t.Errorf("first run: got %+v, want a pushed bundle with keda", row)
		}
	}
	if p := first[1].Problems; len(p) != 1 || p[0].Module != "nope" || first[0].Problems != nil {
		t.Errorf("got problems %+v and %+v, want one for module nope of r-2", first[0].Problems, p)
	}
	before := read(t, filepath.Join(layout, "index.json"))
	second := publishTo(t, from, layout, keys)
	for i, row := range second {
		if row.Action != "unchanged" || row.Digest != first[i].Digest || row.Sequence != first[i].Sequence {
			t.Errorf("first run: %+v\nsecond run: %+v", first[i], row)
		}
	}
	if read(t, filepath.Join(layout, "index.json")) != before {
		t.Error("the second run changed the layout")
	}

	t.Run("A change for one runtime is pushed to that runtime only", func(t *testing.T) {
		write(t, filepath.Join(from, "one.yaml"), kymaYAML("one", "r-1"))
		third := publishTo(t, from, layout, keys)
		if third[0].Action != "pushed" || third[0].Sequence <= first[0].Sequence ||
			!slices.Equal(third[0].Removals, []string{"keda"}) || len(third[0].Modules) != 0 {
			t.Errorf("changed runtime: got %+v, want a pushed bundle without keda", third[0])
		}
		if third[1].Action != "unchanged" {
			t.Errorf("other runtime: got %+v, want an unchanged bundle", third[1])
		}
	})
	t.Run("The table lists runtimes, modules and problems", func(t *testing.T) {
		table := mustRun(t, "publish", "--from", from, "--to", "oci-layout:"+layout, "--keys", keys, "--allow-unresolved")
		for _, want := range []string{"RUNTIME", "r-1", "r-2", "unchanged", "keda@1.0.0", "module nope is unknown"} {
			if !strings.Contains(table, want) {
				t.Errorf("table does not contain %q:\n%s", want, table)
			}
		}
	})
	t.Run("Modules in a different order do not change the bundle", func(t *testing.T) {
		write(t, filepath.Join(from, "two.yaml"), kymaYAML("two", "r-2", "nope", "keda"))
		if rows := publishTo(t, from, layout, keys); rows[1].Action != "unchanged" {
			t.Errorf("got %+v, want an unchanged bundle", rows[1])
		}
	})
}

func TestPublishDryRunWritesNothing(t *testing.T) {
	from, dir, keys := fleetFolder(t), t.TempDir(), keyFolder(t)
	layout, keysBefore := filepath.Join(dir, "layout"), namesIn(t, keys)
	dry := func() []publishcommand.Result {
		var rows []publishcommand.Result
		out := mustRun(t, "publish", "--dry-run", "--from", from, "--to", "oci-layout:"+layout, "--keys", keys,
			"--allow-unresolved", "-o", "json")
		if err := json.Unmarshal([]byte(out), &rows); err != nil {
			t.Fatal(err)
		}
		return rows
	}
	for _, row := range dry() {
		if row.Action != "would-push" || row.Digest != "" || !slices.Equal(row.Modules, []string{"keda@1.0.0"}) ||
			row.Reason == "" {
			t.Errorf("dry run: got %+v, want a bundle that would be pushed", row)
		}
	}
	if names := namesIn(t, keys); len(namesIn(t, dir)) != 0 || !slices.Equal(names, keysBefore) {
		t.Errorf("dry run wrote %v, and left %v in the key folder", namesIn(t, dir), names)
	}
	publishTo(t, from, layout, keys)
	write(t, filepath.Join(from, "one.yaml"), kymaYAML("one", "r-1"))
	index := read(t, filepath.Join(layout, "index.json"))
	if rows := dry(); rows[0].Action != "would-push" || !slices.Equal(rows[0].Removals, []string{"keda"}) ||
		rows[1].Action != "unchanged" {
		t.Errorf("dry run after a change: got %+v", rows)
	}
	if read(t, filepath.Join(layout, "index.json")) != index {
		t.Error("the dry run changed the layout")
	}
	if rows := publishTo(t, from, layout, keys); rows[0].Action != "pushed" || rows[1].Action != "unchanged" {
		t.Errorf("run after the dry run: got %+v", rows)
	}
}

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestPublishFailsForUnresolvedModuleUnlessAllowed(t *testing.T) {
	from, layout, keys := fleetFolder(t), filepath.Join(t.TempDir(), "layout"), keyFolder(t)
	args := []string{"publish", "--from", from, "--to", "oci-layout:" + layout, "--keys", keys, "-o", "json"}
	o := run(args...)
	var rows []publishcommand.Result
	if err := json.Unmarshal([]byte(o.out), &rows); err != nil || rows[0].Action != "pushed" ||
		rows[1].Action != "pushed" {
		t.Errorf("the resolved modules were not published: %v, %+v", err, rows)
	}
	if want := "modules of 1 of 2 runtimes did not resolve (r-2): fix the listed problems, or set " +
		"--allow-unresolved"; o.code != cli.ExitFailed || !strings.Contains(o.err, want) {
		t.Errorf("got exit code %d, %s, want %q", o.code, o.err, want)
	}
	if o := run(append(args, "--allow-unresolved")...); o.code != cli.ExitDone {
		t.Errorf("with --allow-unresolved: got %+v", o)
	}
	write(t, filepath.Join(from, "two.yaml"), kymaYAML("two", "r-2", "keda"))
	if o := run(args...); o.code != cli.ExitDone {
		t.Errorf("after the fix: got %+v", o)
	}
}

func TestPublishRefusesFolderWithoutKymas(t *testing.T) {
	o := run("publish", "--from", t.TempDir(), "--to", "oci-layout:"+filepath.Join(t.TempDir(), "layout"), "--keys",
		keyFolder(t))
	if o.code != cli.ExitFailed || !strings.Contains(o.err, "contains no Kyma") {
		t.Errorf("got %+v, want an error", o)
	}
}

func TestMissingComponentAffectsOnlyItsModule(t *testing.T) {
	from, layout, keys := fleetFolder(t), filepath.Join(t.TempDir(), "layout"), keyFolder(t)
	if err := os.RemoveAll(filepath.Join(from, "components")); err != nil {
		t.Fatal(err)
	}
	rows := publishTo(t, from, layout, keys)
	for _, row := range rows {
		if row.Action != "pushed" || len(row.Modules) != 0 || len(row.Problems) == 0 ||
			!strings.Contains(row.Problems[0].Message, "kyma-project.io/module/keda:1.0.0") {
			t.Errorf("missing component: got %+v, want a problem", row)
		}
	}
	writeArchive(t, filepath.Join(from, "components"), "kyma-project.io/module/keda", "1.0.0")
	if rows := publishTo(t, from, layout, keys); rows[0].Action != "pushed" || len(rows[0].Modules) != 1 ||
		rows[0].Problems != nil {
		t.Errorf("with the component: got %+v, want no problem", rows[0])
	}
}

func TestPublishSkipsOnlyConflictingKymasAndInvalidWatchers(t *testing.T) {
	from, keys := fleetFolder(t), keyFolder(t)
	layout := filepath.Join(t.TempDir(), "layout")
	write(t, filepath.Join(from, "two.yaml"), kymaYAML("two", "r-2", "keda"))
	publishTo(t, from, layout, keys)
	write(t, filepath.Join(from, "two.yaml"), kymaYAML("two", "r-2"))
	write(t, filepath.Join(from, "three.yaml"), kymaYAML("three", "r-1"))
	// A Kyma must not become a runtime's owner because of a status in its file.
	write(t, filepath.Join(from, "four.yaml"),
		kymaYAML("four", "r-4")+"status: {runtime: {id: r-2, assignment: {decided: 5}}}\n")
	write(t, filepath.Join(from, "watcher.yaml"), "apiVersion: operator.kyma-project.io/v1beta2\nkind: Watcher\n"+
		"metadata: {name: secrets}\nspec:\n  resourceToWatch: {group: \"\", version: v1, resource: secrets}\n"+
		"  serviceInfo: {name: s, namespace: n, port: 80}\n  field: spec\n  gateway: {selector: {}}\n")
	o := run("publish", "--from", from, "--to", "oci-layout:"+layout, "--keys", keys, "-o", "json")
	var rows []publishcommand.Result
	if err := json.Unmarshal([]byte(o.out), &rows); err != nil || len(rows) != 4 || o.code != cli.ExitFailed {
		t.Fatalf("got %d runtimes, error %v, %+v, want 4 runtimes and exit code 1", len(rows), err, o)
	}
	for _, row := range rows[:2] {
		if row.Runtime != "r-1" || row.Action != "failed" || !strings.Contains(row.Error,
			"several Kymas have runtime ID r-1, and no operator has assigned the runtime") {
			t.Errorf("Kymas of the same runtime: got %+v, want an error", row)
		}
	}
	for _, row := range rows[2:] {
		if row.Action != "pushed" || row.Error != "" {
			t.Errorf("runtime of another Kyma: got %+v, want a pushed bundle", row)
		}
	}
	for _, want := range []string{"not published: watcher secrets: ", "publishing to 2 of 4 runtimes failed (r-1)",
		"invalid Watchers were not published: secrets"} {
		if !strings.Contains(o.err, want) {
			t.Errorf("output does not contain %q:\n%s", want, o.err)
		}
	}
}

// Package plan tests each annotation. This test checks that `publish` applies them.
func TestPublishAppliesKymaAnnotationsAndReportsIgnoredOnes(t *testing.T) {
	from, layout, keyDir := fleetFolder(t), filepath.Join(t.TempDir(), "layout"), keyFolder(t)
	kyma := func(name, annotations string) {
		write(t, filepath.Join(from, name+".yaml"),
			strings.Replace(kymaYAML(name, "r-"+name, "keda"), "labels: {", "annotations: {"+annotations+"}, labels: {",
				1))
	}
	kyma("ship", "kyma-pull.dev/carried: 2160h, kyma-pull.dev/autonomy: Catalog, kyma-pull.dev/revoked-keys: abc")
	kyma("bare",
		"operator.kyma-project.io/sync-module-catalog: \"false\", operator.kyma-project.io/sync-no-module-copy: "+
			"\"true\"")
	kyma("bad", "kyma-pull.dev/carried: a year")
	write(t, filepath.Join(from, "skipped.yaml"),
		strings.Replace(kymaYAML("skipped", "r-skipped"), "labels: {",
			"labels: {operator.kyma-project.io/skip-reconciliation: \"true\", ", 1))
	write(t, filepath.Join(from, "policy.yaml"),
		"apiVersion: fleet.kyma-project.io/v1alpha1\nkind: RolloutPolicy\nmetadata: {name: careful}\nspec: {modules: "+
			"[keda], waves: [{name: all, percent: 100}]}\n")

	o := run("publish", "--from", from, "--to", "oci-layout:"+layout, "--keys", keyDir, "-o", "json")
	var rows []publishcommand.Result
	if err := json.Unmarshal([]byte(o.out), &rows); err != nil || o.code != cli.ExitFailed {
		t.Fatalf("parse the output: %v; got %+v, want exit code 1", err, o)
	}
	for _, want := range []string{"Kyma ship: annotation kyma-pull.dev/revoked-keys is ignored: ",
		"RolloutPolicy careful is ignored, because "} {
		if strings.Count(o.err, want) != 1 {
			t.Errorf("output does not contain %q once:\n%s", want, o.err)
		}
	}
	for _, row := range rows {
		want := map[string]string{"r-bad": "failed", "r-skipped": "skipped"}[row.Runtime]
		if row.Action != cmp.Or(want, "pushed") || (row.Reason == plan.ReasonFirst) != (want == "") ||
			(row.Error != "") != (want == "failed") {
			t.Errorf("runtime %s: got %+v", row.Runtime, row)
		}
	}
	root, err := keys.Folder{Dir: keyDir}.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	read := func(runtime string) *bundle.Bundle {
		t.Helper()
		return readBundle(t, store.NewLayout(layout), runtime, root.Root)
	}
	if last := read("r-skipped"); last != nil {
		t.Errorf("the skipped Kyma got bundle %+v", last.Statement.Predicate)
	}
	ship, usual, bare := read("r-ship"), read("r-1"), read("r-bare")
	if life := ship.Statement.Predicate.ExpiresAt.Sub(ship.Statement.Predicate.IssuedAt); life != 3240*time.Hour ||
		ship.State.Settings.Autonomy != "Catalog" {
		t.Errorf("the bundle of r-ship is valid for %s with settings %+v", life, ship.State.Settings)
	}
	expires, issued := usual.Statement.Predicate.ExpiresAt, usual.Statement.Predicate.IssuedAt
	if life := expires.Sub(issued); life != flagset.DefaultValidity ||
		usual.Catalog.Digest == bare.Catalog.Digest {
		t.Errorf("the bundle of r-1 is valid for %s with catalog %s", life, usual.Catalog.Digest)
	}
	if len(bare.State.Kyma.Spec.Modules) != 0 || len(bare.State.Manifests) != 1 {
		t.Errorf("runtime r-bare got state %+v", bare.State)
	}
}

func TestPublishRefusesUnlistedPublisherKey(t *testing.T) {
	dir, other := keyFolder(t), keyFolder(t)
	write(t, filepath.Join(dir, keys.FilePublisherKey), read(t, filepath.Join(other, keys.FilePublisherKey)))
	o := run("publish", "--from", fleetFolder(t), "--to", "oci-layout:"+filepath.Join(t.TempDir(), "layout"), "--keys",
		dir)
	if o.code != cli.ExitRefused || !strings.Contains(o.err, "is not listed in the root of trust") {
		t.Errorf("got %+v, want a refusal", o)
	}
}
