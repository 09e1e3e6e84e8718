package render

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
)

// attack is content that must be refused quickly and with little memory.
type attack struct {
	in      Input
	want    string
	cpuTime time.Duration
}

// requireRefused renders each attack in a child process, which must refuse it.
func requireRefused(t *testing.T, attacks map[string]attack) {
	if withRaceDetector() {
		t.Skip("cannot measure memory with the race detector, which uses much memory itself")
	}
	for name, a := range attacks {
		t.Run(name, func(t *testing.T) {
			c := confined(t)
			if c.CPUTime = a.cpuTime; c.CPUTime == 0 {
				c.CPUTime = 2 * time.Minute
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			started := time.Now()
			objects, err := c.Render(t.Context(), a.in)
			runtime.ReadMemStats(&after)
			require.ErrorContains(t, err, a.want)
			require.NotErrorIs(t, err, ErrNotRun)
			require.Empty(t, objects)
			require.NotContains(t, err.Error(), "goroutine")
			require.Less(t, len(err.Error()), 5_000)
			require.Less(t, time.Since(started), slowdown*c.CPUTime+time.Minute)
			require.Less(t, int64(after.TotalAlloc-before.TotalAlloc), int64(400<<20),
				"too much memory was allocated in this process")
		})
	}
}

func withRaceDetector() bool {
	info, _ := debug.ReadBuildInfo()
	return info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// zeros returns n compressed zero bytes (a zip bomb).
func zeros(t testing.TB, n int64) []byte {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	require.NoError(t, err)
	_, err = io.CopyN(w, zeroReader{}, n)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// bomb returns YAML with 9^levels values after its aliases are expanded.
func bomb(levels int) string {
	var out strings.Builder
	out.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < levels; i++ {
		fmt.Fprintf(&out, "a%d: &a%d [*a%[3]d,*a%[3]d,*a%[3]d,*a%[3]d,*a%[3]d,*a%[3]d,*a%[3]d,*a%[3]d,*a%[3]d]\n", i, i,
			i-1)
	}
	return out.String()
}

func rawChart(content []byte) Input {
	return Input{Content: content, Packed: v1beta2.HelmChart, Release: "sample", Kubernetes: kubernetes}
}

func TestHostileChartArchivesAreRefused(t *testing.T) {
	head := yamlFile("sample/Chart.yaml", "apiVersion: v2\nname: sample\nversion: 1.0.0\n")
	with := func(m member) Input { return rawChart(zipped(t, archive(t, head, m))) }
	odd := func(kind byte) Input {
		return with(member{Header: tar.Header{Name: "sample/values.yaml", Typeflag: kind, Linkname: "/etc/passwd"}})
	}
	nested := packed(t, "Chart.yaml", "apiVersion: v2\nname: inner\nversion: 1.0.0\n")
	for range maxChartNesting + 1 {
		nested = packed(t, "Chart.yaml", "apiVersion: v2\nname: inner\nversion: 1.0.0\n", "charts/in.tgz",
			string(nested))
	}
	large := yamlFile("inner/big", strings.Repeat("x", 4<<20))
	var tenth []member
	for i := range 9 {
		large.Name = fmt.Sprint("inner/big", i)
		tenth = append(tenth, large)
	}
	fat := string(zipped(t, append(archive(t, tenth...), noise(1<<20)...)))
	many := []member{head}
	for i := range MaxEntries {
		many = append(many, yamlFile(fmt.Sprint("sample/", i), ""))
	}
	requireRefused(t, map[string]attack{
		"zip bomb": {in: rawChart(zeros(t, 1<<30)), want: "unpack to more than"},
		"zip bomb in a subchart": {
			in:   rawChart(archive(t, head, yamlFile("sample/charts/in.tgz", string(zeros(t, 1<<29))))),
			want: "sample/charts/in.tgz: gzip:",
		},
		"several large subcharts": {
			in: rawChart(archive(t, head, yamlFile("sample/charts/a.tgz", fat), yamlFile("sample/charts/b.tgz", fat),
				yamlFile("sample/charts/c.tgz", fat), yamlFile("sample/charts/d.tgz", fat))), want: "in total",
		},
		"too many nested archives": {in: rawChart(nested), want: "more than 8 nested chart archives"},
		"too many files":           {in: rawChart(archive(t, many...)), want: "more than 2000 entries"},
		"file that is too large": {
			in:   rawChart(archive(t, head, yamlFile("sample/a.txt", strings.Repeat("x", maxChartFileBytes+1)))),
			want: "must be at most 5242880",
		},
		"path outside of the chart": {
			in: with(yamlFile("sample/../../etc/cron.d/x", "")), want: "is outside of the folder",
		},
		"absolute path": {in: with(yamlFile("/etc/cron.d/x", "")), want: "is outside of the folder"},
		"Windows path":  {in: with(yamlFile(`sample\..\..\x`, "")), want: "is outside of the folder"},
		"symbolic link": {in: odd(tar.TypeSymlink), want: "not a file or folder"},
		"hard link":     {in: odd(tar.TypeLink), want: "not a file or folder"},
		"device":        {in: odd(tar.TypeBlock), want: "not a file or folder"},
		"named pipe":    {in: odd(tar.TypeFifo), want: "not a file or folder"},
		"Chart.lock is a symbolic link": {
			in: with(
				member{Header: tar.Header{Name: "sample/Chart.lock", Typeflag: tar.TypeSymlink,
					Linkname: "/root/.bashrc"}}), want: "Chart.lock is not a file or folder",
		},
		"duplicate file":                 {in: with(yamlFile("sample/./Chart.yaml", "")), want: "appears twice"},
		"files that differ only in case": {in: with(yamlFile("sample/chart.yaml", "")), want: "differ only in case"},
		"folder that is nested too deeply": {
			in: with(yamlFile("sample/"+strings.Repeat("a/", 20)+"x", "")), want: "deeper than 16 folders",
		},
		"path that is too long": {
			in: with(yamlFile("sample/"+strings.Repeat("a", 300), "")), want: "longer than 256 bytes",
		},
		"truncated archive": {in: rawChart(archive(t, head)[:530]), want: "tar: "},
		"random bytes":      {in: rawChart(noise(1 << 20)), want: "content is not an archive"},
	})
}

// noise returns incompressible bytes.
func noise(n int) []byte {
	out := make([]byte, n)
	state := uint64(1)
	for i := range out {
		state = state*6364136223846793005 + 1442695040888963407
		out[i] = byte(state >> 56)
	}
	return out
}

func TestHostileYAMLInChartsIsRefused(t *testing.T) {
	head := "apiVersion: v2\nname: sample\nversion: 1.0.0\n"
	layer := chartWith(t, configMap("a"))
	layer.Values = []byte(bomb(9))
	large := chartWith(t, configMap("a"))
	large.Values = []byte("a: " + strings.Repeat("x", 20<<20))
	deep := chartWith(t, configMap("a"))
	deep.Values = []byte("a: " + strings.Repeat("[", 500_000))
	chart := func(files ...string) Input { return rawChart(packed(t, files...)) }
	requireRefused(t, map[string]attack{
		"aliases in the config layer": {in: layer, want: "config layer: the aliases expand to too many bytes"},
		"aliases in values.yaml": {
			in:   chartWith(t, configMap("a"), "values.yaml", bomb(9)),
			want: "values.yaml: the aliases expand to too many bytes",
		},
		"alias that contains itself": {
			in: chartWith(t, configMap("a"), "values.yaml", "a: &a [*a]"), want: "values.yaml: ",
		},
		"aliases in Chart.yaml": {
			in:   chart("Chart.yaml", head+bomb(9)),
			want: "Chart.yaml: document 1: line 4: anchors and aliases are not accepted",
		},
		"aliases in a subchart's Chart.yaml": {
			in: chart("Chart.yaml", head, "charts/x/Chart.yaml", head+bomb(9)), want: "charts/x/Chart.yaml: document 1",
		},
		"aliases in Chart.lock": {
			in: chart("Chart.yaml", head, "Chart.lock", bomb(9)), want: "Chart.lock: document 1",
		},
		"aliases in a template's output": {
			in:   chartWith(t, configMap("a")+"data:\n  "+strings.ReplaceAll(bomb(9), "\n", "\n  ")),
			want: "document 1: more than 400000 values",
		},
		"aliases in crds": {
			in: chart("Chart.yaml", head, "crds/a.yaml", bomb(9)), want: "sample/crds/a.yaml, document 1",
		},
		"aliases expanded with fromYaml": {
			in: chartWith(t, settingsMap(`{{ .Files.Get "bomb" | fromYaml | toYaml | len }}`)+
				"  again: {{ .Files.Get \"bomb\" | fromYaml | toYaml | fail }}", "bomb", bomb(9)),
			want: "chart sample: ",
		},
		"config layer of 20 MiB": {
			in: large, want: "config layer: the values are 20971523 bytes, must be at most 1048576",
		},
		"config layer with deeply nested lists": {in: deep, want: "config layer: "},
		"overrides that build long lists": {in: func() Input {
			in := chartWith(t, configMap("a"))
			var overrides strings.Builder
			for i := range 2000 {
				fmt.Fprintf(&overrides, "a%d[65535][65535]=1,", i)
			}
			in.Values = []byte("configs: [{name: a, overrides: '" + overrides.String() + "b=1'}]")
			return in
		}(), want: "chart sample: rendering needs more than 256 MiB of memory"},
	})
}

func TestNonterminatingTemplatesAreStopped(t *testing.T) {
	doubling := `{{ $s := "xxxxxxxx" }}{{ range until 40 }}{{ $s = print $s $s }}{{ end }}{{ $s }}`
	repeated := func(n int, template string) Input {
		return chartWith(t, fmt.Sprintf("{{ range until %d }}\n%s{{ end }}", n, template))
	}
	tooLong := attack{want: "chart sample: rendering took longer than 1s of CPU time", cpuTime: time.Second}
	loop := func(template string) attack { a := tooLong; a.in = chartWith(t, template); return a }
	requireRefused(t, map[string]attack{
		"nested loops":         loop(endless),
		"list of 2^40 entries": {in: chartWith(t, `{{ until 1099511627776 }}`), want: "chart sample: "},
		"list of 10^9 entries": {
			in:   chartWith(t, `{{ until 1000000000 | len }}`),
			want: "chart sample: rendering needs more than 256 MiB of memory",
		},
		"string that doubles repeatedly": {
			in: chartWith(t, doubling), want: "chart sample: rendering needs more than 256 MiB of memory",
		},
		"string that is repeated 2*10^9 times": {
			in:   chartWith(t, `{{ repeat 2000000000 "x" }}`),
			want: "chart sample: rendering needs more than 256 MiB of memory",
		},
		"template that includes itself": {
			in:   chartWith(t, `{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}`),
			want: "nested reference name: a",
		},
		"template that calls itself": {
			in:   chartWith(t, `{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}`),
			want: "chart sample: ",
		},
		"text that calls tpl with itself": {
			in:   chartWith(t, `{{ tpl .Values.t . }}`, "values.yaml", "t: '{{ tpl .Values.t . }}'"),
			want: "chart sample: ",
		},
		"values that contain themselves": {
			in: chartWith(t, `{{ $_ := set .Values "a" .Values }}{{ toYaml .Values }}`), want: "chart sample: ",
		},
		// the document or its copies exceed a limit
		"document of 100 MB": {in: chartWith(t, settingsMap(`{{ repeat 100000000 "x" }}`)), want: "chart sample: "},
		"document of 35 MB": {
			in:   chartWith(t, settingsMap(`{{ repeat 35000000 "x" }}`)),
			want: "chart sample: the templates render to more than 33554432 bytes",
		},
		"document of 20 MB": {
			in:   chartWith(t, settingsMap(`{{ repeat 20000000 "x" }}`)),
			want: "bytes, must be at most 8388608: split lists",
		},
		"too many objects": {
			in: repeated(MaxObjects+1, "---\n"+configMap("a{{ . }}")), want: "more than 2000 objects",
		},
		"objects of 36 MB in total": {
			in: repeated(36,
				"---\n"+strings.Replace(settingsMap(`{{ repeat 1000000 "x" }}`), "settings", "s{{ . }}", 1)),
			want: "the templates render to more than",
		},
		"thousands of empty documents":    {in: repeated(5000, "---\n"), want: "content has no objects"},
		"unclosed brackets in a template": {in: chartWith(t, settingsMap(`{{ repeat 100000 "[" }}`)), want: "document 1"},
		"template that panics":            {in: chartWith(t, `{{ div 1 0 }}`), want: "chart sample: "},
	})
	t.Run("more loops", func(t *testing.T) {
		suite.Long(t) // the short suite runs the case with nested loops, which the same limit stops
		requireRefused(t, map[string]attack{
			"slow regular expression": loop(
				`{{ range until 100000 }}{{ regexReplaceAll "(.*)(.*)(.*)" (repeat 100000 "a") "${1}" | len }}{{ end }}`),
			"loop in text for tpl": loop(
				`{{ range until 1000000 }}{{ tpl "{{ range until 1000 }}{{ end }}" $ }}{{ end }}`),
			"slow key derivation": loop(
				`{{ derivePassword 1 "long" "a" "b" "c" }}{{ range until 100000 }}{{ derivePassword 1 "long" "a" "b" "c" }}{{ end }}`),
		})
	})
}

func TestHostileSchemasAreRefused(t *testing.T) {
	with := func(schema string) Input {
		return chartWith(t, configMap("a"), "values.schema.json", schema, "values.yaml",
			"a: 1\nb: "+strings.Repeat("[", 50)+strings.Repeat("]", 50))
	}
	var chain strings.Builder
	for i := range 3_000 {
		fmt.Fprintf(&chain, `"d%d": {"$ref": "#/$defs/d%d"},`, i, i+1)
	}
	var wide strings.Builder
	for i := range 40 {
		fmt.Fprintf(&wide, `"d%d": {"allOf": [{"$ref": "#/$defs/d%[2]d"}, {"$ref": "#/$defs/d%[2]d"}]},`, i, i+1)
	}
	requireRefused(t, map[string]attack{
		"invalid JSON": {in: with("{"), want: "values of sample: values.schema.json: "},
		"values that do not match the schema": {
			in:   with(`{"properties": {"a": {"type": "string"}}}`),
			want: "validation against values.schema.json failed:\n- at '/a': got number, want string",
		},
		"reference to itself": {in: with(`{"$ref": "#"}`), want: "chart sample: "},
		"long chain of references": {
			in:   with(`{"$ref": "#/$defs/d0", "$defs": {` + chain.String() + `"d3000": {"type": "string"}}}`),
			want: "chart sample: ",
		},
		"tree of references": {
			in:   with(`{"$ref": "#/$defs/d0", "$defs": {` + wide.String() + `"d40": {"type": "object"}}}`),
			want: "rendering took longer than 1s", cpuTime: time.Second,
		},
		"unclosed brackets": {in: with(strings.Repeat("[", 1_000_000)), want: "values.schema.json: "},
		"reference to a file of the node": {
			in:   with(`{"$ref": "file:///etc/passwd"}`),
			want: "file:///etc/passwd is not part of the schema and is not fetched",
		},
		"reference to a relative file": {
			in: with(`{"$ref": "other.json"}`), want: "file:///other.json is not part of the schema",
		},
		"reference to a URN": {
			in: with(`{"$ref": "urn:example:a"}`), want: "urn:example:a is not part of the schema",
		},
		"reference to a metaschema": {
			in:   with(`{"$schema": "http://example.org/schema"}`),
			want: "http://example.org/schema is not part of the schema",
		},
		"reference relative to a URL": {
			in:   with(`{"$id": "https://example.org/a.json", "$ref": "b.json"}`),
			want: "https://example.org/b.json is not part of the schema",
		},
		"reference in a branch": {
			in:   with(`{"if": {"$dynamicRef": "https://example.org/a"}}`),
			want: "https://example.org/a is not part of the schema",
		},
	})
}
