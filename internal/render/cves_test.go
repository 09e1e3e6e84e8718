package render

import (
	"testing"
)

// Former vulnerabilities of Helm in reading and rendering charts. Other tests here cover links, paths, archive bombs,
// references of schemas and name resolution (CVE-2019-1000008, -2019-18658, -2025-53547, -2025-32386, -2025-32387,
// -2025-55199, -2023-25165).
func TestVulnerabilitiesOfHelmStayFixed(t *testing.T) {
	head := "apiVersion: v2\nname: sample\nversion: 1.0.0\n"
	chart := func(files ...string) Input { return rawChart(packed(t, files...)) }
	overrides := func(text string) Input {
		in := chartWith(t, configMap("a"))
		in.Values = []byte("configs: [{name: a, overrides: '" + text + "'}]")
		return in
	}
	schema := func(text string) Input { return chartWith(t, configMap("a"), "values.schema.json", text) }
	fend(t, map[string]attack{
		"CVE-2022-23524: a list of 10^12":         {in: overrides("a[999999999999]=1"), want: "overrides: "},
		"CVE-2022-23524: a negative index":        {in: overrides("a[-1]=1"), want: "overrides: "},
		"CVE-2022-23524: braces in braces":        {in: overrides("a={{{{{{{{{{{{{{{{"), want: "overrides: "},
		"CVE-2022-23526: a schema that is a list": {in: schema("[]"), want: "values.schema.json: "},
		"CVE-2022-23526: a schema that is null":   {in: schema("null"), want: "values.schema.json: "},
		"CVE-2022-23526: a reference to null":     {in: schema(`{"$ref": null}`), want: "values.schema.json: "},
		"CVE-2022-23526: properties of a number":  {in: schema(`{"properties": 1}`), want: "values.schema.json: "},
		"CVE-2025-55199: a device": {
			in: schema(`{"$ref": "file:///dev/zero"}`), want: "file:///dev/zero is not part of the schema",
		},
		"CVE-2025-55198: maintainers of null": {
			in:   chart("Chart.yaml", head+"maintainers: [null]\n"),
			want: "maintainers must not contain empty or null nodes",
		},
		"CVE-2025-55198: dependencies of null": {
			in:   chart("Chart.yaml", head+"dependencies: [null]\n"),
			want: "dependencies must not contain empty or null nodes",
		},
		"CVE-2025-55198: import-values of null": {
			in: chart("Chart.yaml",
				head+"dependencies: [{name: x, version: 1.0.0, import-values: [null, {child: null}]}]\n",
				"charts/x/Chart.yaml", "apiVersion: v2\nname: x\nversion: 1.0.0\n"), want: "no objects"},
		"CVE-2024-26147: an empty Chart.yaml":  {in: chart("Chart.yaml", ""), want: "chart.metadata"},
		"CVE-2024-26147: a Chart.yaml of null": {in: chart("Chart.yaml", "null"), want: "chart.metadata"},
		"CVE-2024-25620: a name with a path": {
			in: chart("Chart.yaml", "apiVersion: v2\nname: ../../x\nversion: 1.0.0\n"), want: `"../../x" is invalid`,
		},
		"CVE-2026-35206: a name of dots": {
			in: chart("Chart.yaml", "apiVersion: v2\nname: ..\nversion: 1.0.0\n"), want: `".." is not allowed`,
		},
		"CVE-2026-35206: a name of dots within": {
			in:   chart("Chart.yaml", head, "charts/x/Chart.yaml", "apiVersion: v2\nname: ..\nversion: 1.0.0\n"),
			want: `".." is not allowed`,
		},
		"CVE-2023-25165: a name that is resolved": {
			in:   chartWith(t, `{{ if not (getHostByName "localhost") }}{{ fail "stays unresolved" }}{{ end }}`),
			want: "stays unresolved",
		},
	})
}
