package main

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRequestsAreClassified(t *testing.T) {
	for path, want := range map[string]string{
		"/v2/fleet/runtimes/runtime-00001/manifests/desired":                           aboutBundles,
		"/v2/fleet/runtimes/runtime-00001/blobs/uploads/":                              aboutMounts,
		"/v2/fleet/reports/runtime-00001/manifests/latest":                             aboutReports,
		"/v2/fleet/runtimes/runtime-00001/blobs/sha256:01":                             "blobs of runtimes",
		"/v2/modules/component-descriptors/kyma-pull.dev/module/one/manifests/1.0.0":   "manifests of modules",
		"/v2/modules/component-descriptors/kyma-pull.dev/module/one/blobs/uploads/0-1": "uploads of modules",
		"/v2/": "other of other",
	} {
		if got := describePath(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

func TestOnlyAcceptedPushesCountAsPublished(t *testing.T) {
	const path = "/v2/fleet/runtimes/runtime-00001/manifests/desired"
	for _, c := range []struct {
		method, path string
		status       int
		want         string
	}{
		{"PUT", path, 201, "runtime-00001"},
		{"PUT", path, 500, ""},
		{"HEAD", path, 200, ""},
		{"PUT", "/v2/fleet/runtimes/runtime-00001/manifests/sha256:01", 201, ""},
		{"PUT", "/v2/fleet/reports/runtime-00001/manifests/latest", 201, ""},
	} {
		if got := published(c.method, c.path, c.status); got != c.want {
			t.Errorf("%s %s with status %d published a bundle of %q, want %q", c.method, c.path, c.status, got, c.want)
		}
	}
	start := time.Now()
	came := arrivals{"one": start.Add(-time.Second), "two": start.Add(2 * time.Second), "three": start.Add(time.Second)}
	if got := came.countSince(start); got.N != 2 || !got.Last.Equal(start.Add(2*time.Second)) {
		t.Errorf("arrivals since the start: %+v", got)
	}
}

func TestTrafficSinceACountExcludesEarlierRequests(t *testing.T) {
	head, put := request{publisherHost, "HEAD", aboutReports}, request{publisherHost, "PUT", aboutBundles}
	push := request{agentsHost, "PUT", aboutReports}
	before := requestCounts{head: {N: 3}}
	later := requestCounts{head: {N: 3}, put: {N: 2}, push: {N: 5}}.requestsSince(before)
	if later.total(publisherHost) != 2 || later.n(agentsHost, "PUT", aboutReports) != 5 || len(later) != 2 {
		t.Errorf("traffic since the earlier count is %v", later)
	}
	if got, want := (requestCounts{put: {N: 2}, head: {N: 7}}).String(),
		"7 HEAD manifests of reports, 2 PUT manifests of runtimes"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestModuleSetsAreDistinctAndContainPromotedModule(t *testing.T) {
	seen := map[string]bool{}
	for i := range sets {
		set := moduleSet(i)
		if len(set) != perRuntime || len(slices.Compact(slices.Sorted(slices.Values(set)))) != perRuntime ||
			!slices.Contains(set, promotedModule) {
			t.Errorf("set %d is %v", i, set)
		}
		seen[strings.Join(set, " ")] = true
	}
	if len(seen) != sets {
		t.Errorf("%d different sets, want %d", len(seen), sets)
	}
}

func TestQuantileReturnsRankedDuration(t *testing.T) {
	values := []time.Duration{5, 1, 4, 2, 3}
	if p50, p99, none := quantile(values, 0.5), quantile(values, 0.99), quantile(nil, 0.5); p50 != 3 || p99 != 5 ||
		none != 0 {
		t.Errorf("got p50 %d, p99 %d, p50 of no values %d", p50, p99, none)
	}
}

// A partial run is compared with the last complete run. A complete run is never compared with a partial run.
func TestBenchmarkRunIsComparedWithPreviousRun(t *testing.T) {
	folder := t.TempDir()
	run := func(value float64, only ...string) string {
		r := &results{
			Runtimes: 100, Version: "v1", Options: options{Only: only}, Figures: []figure{
				{Stage: "idle", What: "CPU of publisher", Value: value, Unit: millicores},
			},
		}
		var out bytes.Buffer
		if err := r.write(folder, &out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if first := run(200); strings.Contains(first, "%  |") ||
		!strings.Contains(first, "| idle | CPU of publisher | 200.0 millicores |  |  |  |") {
		t.Errorf("the first run reports:\n%s", first)
	}
	for _, only := range [][]string{{"idle"}, nil} {
		if next := run(100, only...); !strings.Contains(next,
			"| idle | CPU of publisher | 100.0 millicores | 200.0 millicores | -50 % |  |") {
			t.Errorf("with stages %v the next run reports:\n%s", only, next)
		}
	}
	for _, name := range []string{"fleet-100.md", "fleet-100.json", "fleet-100-part.md", "fleet-100-part.json"} {
		if found, err := filepath.Glob(filepath.Join(folder, name)); err != nil || len(found) != 1 {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
}

func TestInvalidCommandLinesAreRefused(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-n 99", "-n must be between 100 and 10000, got 99"},
		{"-n 10001", "-n must be between 100 and 10000, got 10001"},
		{"-only idle,nothing", "-only: unknown stage nothing; valid stages are promotion, reports"},
	} {
		if _, err := parse(strings.Fields(c.args)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
	}
	c, err := parse(strings.Fields("-n 200 -only idle,waves -memory-limit 300"))
	if err != nil || c.Runtimes != 200 || !slices.Equal(c.Only, []string{"idle", "waves"}) || c.MemoryLimit != 300<<20 {
		t.Errorf("got %+v, %v", c, err)
	}
}
