package export

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/flagset"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/export"
)

func reportIn(t *testing.T, runtime string, observed digest.Digest) string {
	t.Helper()
	key, err := trust.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	signer, err := trust.LoadSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	report := bundle.Report{Runtime: runtime, Sequence: 1, Time: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)}
	if observed != "" {
		report.Observed = &bundle.Observed{Epoch: 1, Sequence: 1, Digest: observed}
	}
	manifest, err := bundle.ComposeReport(report, signer)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(path, manifest.Bytes, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestExportSinceFlagAcceptsReportsAndDigests(t *testing.T) {
	one, two := digest.FromString("one"), digest.FromString("two")
	for name, c := range map[string]struct {
		runtimes, since []string
		want            map[string]digest.Digest
		problem         string
	}{
		"no --since": {[]string{"ship"}, nil, map[string]digest.Digest{}, ""},
		"a digest for one runtime": {
			[]string{"ship"}, []string{one.String()}, map[string]digest.Digest{"ship": one}, "",
		},
		"reports of two runtimes": {
			[]string{"ship", "plant"}, []string{reportIn(t, "plant", two), reportIn(t, "ship", one)},
			map[string]digest.Digest{"ship": one, "plant": two}, "",
		},
		"a report without an applied bundle": {
			[]string{"ship"}, []string{reportIn(t, "ship", "")}, map[string]digest.Digest{}, "",
		},
		"a digest for two runtimes": {
			[]string{"ship", "plant"}, []string{one.String()}, nil, "a digest can only be used for a single runtime",
		},
		"a report from another runtime": {
			[]string{"ship"}, []string{reportIn(t, "plant", one)}, nil,
			"the report is from runtime plant, which is not exported",
		},
		"a report from a runtime whose ID is a prefix": {
			[]string{"ship-1"}, []string{reportIn(t, "ship", one)}, nil,
			"the report is from runtime ship, which is not exported",
		},
		"a missing file": {[]string{"ship"}, []string{"/nowhere"}, nil, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := (&exportFlags{since: c.since}).baseDigests(c.runtimes)
			if c.problem != "" {
				if err == nil || !strings.Contains(err.Error(), c.problem) {
					t.Errorf("got %v, want %q", err, c.problem)
				}
				return
			}
			if err != nil || len(got) != len(c.want) {
				t.Fatalf("got %v, %v, want %v", got, err, c.want)
			}
			for runtime, want := range c.want {
				if got[runtime] != want {
					t.Errorf("%s has %s, want %s", runtime, got[runtime], want)
				}
			}
		})
	}
}

func TestInvalidPlatformsAreRefused(t *testing.T) {
	found, err := parsePlatforms([]string{"linux/amd64", "linux/arm/v7"})
	if err != nil || len(found) != 2 || found[1].Architecture != "arm" || found[1].Variant != "v7" {
		t.Errorf("got platforms %+v, %v", found, err)
	}
	for _, text := range []string{"linux", "amd64", "", "/amd64", "linux/", "linux/arm/v7/x"} {
		if _, err := parsePlatforms([]string{text}); err == nil || !strings.Contains(err.Error(), "such as linux/amd64") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestExportPrintsAReadableTable(t *testing.T) {
	var table bytes.Buffer
	exportResult{
		Files: []string{"ship.tar.001", "ship.tar.002"}, SizeBytes: 3 << 20, LeftOutBytes: 512,
		Contents: []export.Entry{
			{Kind: export.KindBundle, Name: "ship, sequence 7", Runtimes: []string{"ship"}, Blobs: 3, SizeBytes: 5000},
			{
				Kind: export.KindContent, Name: "keda 1.8.0, raw-manifest", Runtimes: []string{"plant", "ship"},
				Blobs: 1, SizeBytes: 3 << 20, LeftOutBytes: 512,
			},
		},
	}.draw(&table)
	for _, want := range []string{"ship, sequence 7", "keda 1.8.0, raw-manifest", "plant, ship", "4.9 KiB", "3.0 MiB",
		"512 B", "ship.tar.002"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("output does not contain %q:\n%s", want, table.String())
		}
	}
}

func TestExportNamesModulesWithUnknownImages(t *testing.T) {
	var out bytes.Buffer
	exportResult{Modules: []export.ModuleImages{
		{Module: "keda", Version: "1.0.0", Listed: 2, Rendered: true}, {Module: "mail", Version: "1.0.0", Listed: 1},
		{Module: "nats", Version: "2.0.0"},
		{Module: "offer", Version: "3.0.0", Listed: 1, Problem: "values.x is\x1b[2J required"},
	}}.draw(&out)
	for _, want := range []string{"no images of nats 2.0.0 are", "only the listed images of mail 1.0.0 are included",
		"! offer 3.0.0 cannot be rendered", "--offers=false"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output does not contain %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "keda") || strings.Contains(out.String(), "\x1b") {
		t.Errorf("output contains a rendered module or control characters:\n%q", out.String())
	}
}

func TestExportWarnsAboutAnUnconfinedRenderer(t *testing.T) {
	linux, darwin := flagset.UnconfinedWarning("linux"), flagset.UnconfinedWarning("darwin")
	if linux != "" || !strings.Contains(darwin, "--renderer=none") {
		t.Errorf("got warning %q on Linux and %q on macOS", linux, darwin)
	}
}
