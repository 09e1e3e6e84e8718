package render

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
)

// chartWithThousandObjects returns a chart with 1,000 objects from 100 templates.
func chartWithThousandObjects(t testing.TB) Input {
	files := []string{
		"templates/_helpers.tpl",
		"{{ define \"labels\" }}app.kubernetes.io/name: {{ .Chart.Name }}\napp.kubernetes.io/instance: {{ " +
			".Release.Name | trunc 63 | quote }}{{ end }}",
		"values.yaml",
		"resources: {limits: {cpu: 100m, memory: 64Mi}, requests: {cpu: 10m, memory: 32Mi}}\nimage: {repository: " +
			"example.org/app, tag: v1}\n",
	}
	for i := range 100 {
		files = append(files, fmt.Sprintf("templates/part-%d.yaml", i), fmt.Sprintf(`{{ range $i := until 10 }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $.Release.Name }}-%d-{{ $i }}
  namespace: {{ $.Release.Namespace }}
  labels: {{- include "labels" $ | nindent 4 }}
spec:
  replicas: {{ add $i 1 }}
  selector:
    matchLabels: {{- include "labels" $ | nindent 6 }}
  template:
    metadata:
      labels: {{- include "labels" $ | nindent 8 }}
    spec:
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: app
        image: "{{ $.Values.image.repository }}:{{ $.Values.image.tag }}"
        args: ["--one", "--two={{ $i }}"]
        ports: [{containerPort: 8080, name: http}, {containerPort: 9090, name: metrics}]
        livenessProbe: {httpGet: {path: /healthz, port: http}, periodSeconds: 10}
        resources: {{- toYaml $.Values.resources | nindent 10 }}
{{ end }}`, i))
	}
	in := chartWith(t, "", files...)
	return in
}

func BenchmarkChartWithThousandObjects(b *testing.B) {
	in := chartWithThousandObjects(b)
	expect := func(b *testing.B, n int, err error) {
		require.NoError(b, err)
		require.Equal(b, 1000, n)
	}
	b.Run("helm", func(b *testing.B) {
		for b.Loop() {
			n, err := byHelm(in)
			expect(b, n, err)
		}
	})
	b.Run("render", func(b *testing.B) {
		for b.Loop() {
			objects, err := Render(in)
			expect(b, len(objects), err)
		}
	})
	b.Run("confined", func(b *testing.B) {
		c := confined(b)
		for b.Loop() {
			objects, err := c.Render(b.Context(), in)
			expect(b, len(objects), err)
		}
	})
	doubtful := in
	doubtful.Values = []byte("unused: '{{ now }}'")
	b.Run("render-twice", func(b *testing.B) {
		for b.Loop() {
			objects, err := Render(doubtful)
			expect(b, len(objects), err)
		}
	})
}

// byHelm renders a chart with Helm's library, without parsing the objects.
func byHelm(in Input) (int, error) {
	c, err := loader.LoadArchive(bytes.NewReader(in.Content))
	if err != nil {
		return 0, err
	}
	values, err := chartutil.ReadValues(in.Values)
	if err != nil {
		return 0, err
	}
	if err := chartutil.ProcessDependenciesWithMerge(c, values); err != nil {
		return 0, err
	}
	top, err := chartutil.ToRenderValues(c, values,
		chartutil.ReleaseOptions{Name: in.Release, Namespace: in.Namespace, Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return 0, err
	}
	texts, err := engine.Render(c, top)
	if err != nil {
		return 0, err
	}
	_, manifests, err := releaseutil.SortManifests(texts, nil, releaseutil.InstallOrder)
	return len(manifests), err
}
