package render

import (
	"testing"
)

// The test covers vulnerabilities that Helm has fixed. Other tests in this package cover CVE-2019-1000008, -2019-18658,
// -2025-53547, -2025-32386, -2025-32387, -2025-55199 and -2023-25165.
func TestFixedHelmVulnerabilitiesStayFixed(t *testing.T) {
	head := "apiVersion: v2\nname: sample\nversion: 1.0.0\n"
	chart := func(files ...string) Input { return rawChart(packed(t, files...)) }
	overrides := func(text string) Input {
		in := chartWith(t, configMap("a"))
		in.Values = []byte("configs: [{name: a, overrides: '" + text + "'}]")
		return in
	}
	schema := func(text string) Input { return chartWith(t, configMap("a"), "values.schema.json", text) }
	requireRefused(t, map[string]attack{
		"CVE-2022-23524: list with 10^12 entries": {in: overrides("a[999999999999]=1"), want: "overrides: "},
		"CVE-2022-23524: negative list index":     {in: overrides("a[-1]=1"), want: "overrides: "},
		"CVE-2022-23524: nested braces":           {in: overrides("a={{{{{{{{{{{{{{{{"), want: "overrides: "},
		"CVE-2022-23526: schema is a list":        {in: schema("[]"), want: "values.schema.json: "},
		"CVE-2022-23526: schema is null":          {in: schema("null"), want: "values.schema.json: "},
		"CVE-2022-23526: reference is null":       {in: schema(`{"$ref": null}`), want: "values.schema.json: "},
		"CVE-2022-23526: properties is a number":  {in: schema(`{"properties": 1}`), want: "values.schema.json: "},
		"CVE-2025-55199: reference to a device": {
			in: schema(`{"$ref": "file:///dev/zero"}`), want: "file:///dev/zero is not part of the schema",
		},
		"CVE-2025-55198: null entry in maintainers": {
			in:   chart("Chart.yaml", head+"maintainers: [null]\n"),
			want: "maintainers must not contain empty or null nodes",
		},
		"CVE-2025-55198: null entry in dependencies": {
			in:   chart("Chart.yaml", head+"dependencies: [null]\n"),
			want: "dependencies must not contain empty or null nodes",
		},
		"CVE-2025-55198: null entry in import-values": {
			in: chart("Chart.yaml",
				head+"dependencies: [{name: x, version: 1.0.0, import-values: [null, {child: null}]}]\n",
				"charts/x/Chart.yaml", "apiVersion: v2\nname: x\nversion: 1.0.0\n"), want: "no objects"},
		"CVE-2024-26147: empty Chart.yaml":   {in: chart("Chart.yaml", ""), want: "chart.metadata"},
		"CVE-2024-26147: Chart.yaml is null": {in: chart("Chart.yaml", "null"), want: "chart.metadata"},
		"CVE-2024-25620: chart name with a path": {
			in: chart("Chart.yaml", "apiVersion: v2\nname: ../../x\nversion: 1.0.0\n"), want: `"../../x" is invalid`,
		},
		"CVE-2026-35206: chart name ..": {
			in: chart("Chart.yaml", "apiVersion: v2\nname: ..\nversion: 1.0.0\n"), want: `".." is not allowed`,
		},
		"CVE-2026-35206: subchart name ..": {
			in:   chart("Chart.yaml", head, "charts/x/Chart.yaml", "apiVersion: v2\nname: ..\nversion: 1.0.0\n"),
			want: `".." is not allowed`,
		},
		"CVE-2023-25165: template that resolves a host name": {
			in:   chartWith(t, `{{ if not (getHostByName "localhost") }}{{ fail "stays unresolved" }}{{ end }}`),
			want: "stays unresolved",
		},
	})
}
