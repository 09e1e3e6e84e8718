package render

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTemplatesWithRandomOrTimeFunctionsAreRefused(t *testing.T) {
	for name, template := range map[string]string{
		"randAlphaNum":      `{{ randAlphaNum 8 | b64enc }}`,
		"randNumeric":       `n{{ randNumeric 1 }}`,
		"randInt":           `"{{ randInt 0 2 }}"`,
		"randBytes":         `{{ randBytes 4 }}`,
		"shuffle":           `{{ shuffle "ab" }}`,
		"uuidv4":            `{{ quote uuidv4 }}`,
		"genPrivateKey":     `{{ genPrivateKey "ed25519" | quote }}`,
		"genCA":             `{{ (genCA "x" 1).Cert | b64enc }}`,
		"genSelfSignedCert": `{{ (genSelfSignedCert "x" nil nil 1).Key | b64enc }}`,
		"htpasswd":          `{{ htpasswd "a" "b" | quote }}`,
		"bcrypt":            `{{ bcrypt "a" }}`,
		"encryptAES":        `{{ encryptAES "k" "v" }}`,
		"now":               `"{{ now | date "2006" }}"`,
		"ago":               `{{ ago (toDate "2006-01-02" "2020-01-01") }}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Render(chartWith(t, settingsMap(template)))
			require.ErrorContains(
				t,
				err,
				"chart sample: sample/templates/all.yaml, document 1, ConfigMap settings differs between renderings "+
					"because of "+
					name+" (templates/all.yaml:5): set a fixed value in the chart's values",
			)
		})
	}
}

func TestTemplatesWithUnsortedKeysAreRefused(t *testing.T) {
	in := chartWith(t, settingsMap(`{{ keys .Values.many | join "-" }}`))
	in.Values = []byte("many: {a: 1, b: 1, c: 1, d: 1, e: 1, f: 1, g: 1, h: 1, i: 1, j: 1, k: 1}")
	_, err := Render(in)
	require.ErrorContains(t, err, "because of keys (templates/all.yaml:5)")

	in = chartWith(t, settingsMap(`{{ keys .Values.many | sortAlpha | join "-" }}`))
	in.Values = []byte("many: {b: 1, a: 1}")
	require.Equal(t, map[string]any{"value": "a-b"}, rendered(t, in)["data"])
}

func TestErrorNamesIndirectlyUsedFunction(t *testing.T) {
	for name, c := range map[string]struct {
		in  Input
		err string
	}{
		"function in a helper template": {chartWith(t, settingsMap(`{{ include "password" . }}`),
			"templates/_helpers.tpl",
			"{{ define \"other\" }}{{ uuidv4 }}{{ end }}\n{{ define \"password\" }}{{ randAlpha 9 }}{{ end }}"),
			"ConfigMap settings differs between renderings because of randAlpha (templates/_helpers.tpl:2): "},
		"function in a subchart": {chartWith(t, "", "charts/x/Chart.yaml",
			"apiVersion: v2\nname: inner\nversion: 1.0.0\n", "charts/x/templates/a.yaml", settingsMap(`{{ uuidv4 }}`)),
			"sample/charts/inner/templates/a.yaml, document 1, ConfigMap settings differs between renderings " +
				"because of uuidv4 (charts/x/templates/a.yaml:5)"},
		"function in one of two helper templates with the same name": {
			chartWith(t, settingsMap(`{{ include "lib.password" . }}`),
				"charts/a/Chart.yaml", "apiVersion: v2\nname: a\nversion: 1.0.0\n",
				"charts/a/templates/_lib.tpl", `{{ define "lib.password" }}{{ randAlphaNum 9 }}{{ end }}`,
				"charts/b/Chart.yaml", "apiVersion: v2\nname: b\nversion: 1.0.0\n",
				"charts/b/templates/_lib.tpl", `{{ define "lib.password" }}fixed{{ end }}`),
			"because of randAlphaNum (charts/a/templates/_lib.tpl:1)"},
		"function in a value for tpl": {chartWith(t, settingsMap(`"{{ tpl .Values.text . }}"`), "values.yaml",
			"text: '{{ now | date `2006` }}'"),
			"because of now (values.yaml:1)"},
		"function in a value for tpl next to a value that is not a template": {
			chartWith(t, settingsMap(`"{{ tpl .Values.text . }}"`), "values.yaml",
				"alert: '{{ $labels.pod }} is down'\ntext: '{{ now | date `2006` }}'"),
			"because of now (values.yaml:2)"},
		"function in a file for tpl": {
			chartWith(t, settingsMap(`"{{ tpl (.Files.Get "text") . }}"`), "text", "{{ now.Year }}"),
			"because of now (text:1)",
		},
		"function that decides which objects exist": {
			chartWith(t, "{{ if gt now.Year 2001 }}\n"+configMap("late")+"{{ else }}\n"+configMap("early")+"{{ end }}"),
			"ConfigMap sample/late differs between renderings because of now (templates/all.yaml:1)"},
		"function that decides whether rendering fails": {
			chartWith(t, configMap("a")+`{{ if lt now.Year 2001 }}{{ fail "too early" }}{{ end }}`),
			"rendering succeeds or fails depending on now (templates/all.yaml:6): set a fixed value in"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Render(c.in)
			require.ErrorContains(t, err, c.err)
		})
	}
	in := chartWith(t, settingsMap(`"{{ tpl .Values.text . }}"`))
	in.Values = []byte("text: '{{ randAlphaNum 5 }}'")
	_, err := Render(in)
	require.ErrorContains(t, err, "because of randAlphaNum (config layer:1)")
}

func TestRandomOrTimeFunctionsWithoutEffectAreAccepted(t *testing.T) {
	for name, in := range map[string]Input{
		"function in a branch that is not executed": chartWith(t,
			settingsMap(`{{ .Values.password | default "x" }}{{ if .Values.no }}{{ randAlphaNum 5 }}{{ end }}`)),
		"function in a YAML comment":     chartWith(t, "# made at {{ now }} by {{ uuidv4 }}\n"+settingsMap("x")),
		"function in an unused variable": chartWith(t, `{{ $ca := genCA "a" 1 }}`+settingsMap("x")),
		"function in an unused default": chartWith(t, settingsMap(`{{ .Values.value | default (randAlphaNum 5) }}`),
			"values.yaml", "value: x"),
		"function in NOTES.txt": chartWith(t, settingsMap("x"), "templates/NOTES.txt", "{{ now }}"),
		"function whose result is only counted": chartWith(t,
			settingsMap(`{{ ternary "x" "y" (eq 2 (keys (dict "a" 1 "b" 2) | len)) }}`)),
		"function whose result does not affect the output": chartWith(t,
			settingsMap(`{{ ternary "x" "y" (gt (len (randAlphaNum 5)) 1) }}`)),
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, map[string]any{"value": "x"}, rendered(t, in)["data"])
		})
	}
}

func TestTemplateTextThatMentionsAForbiddenFunctionIsAccepted(t *testing.T) {
	in := chartWith(t, settingsMap(`{{ .Values.text | quote }}`)+"  more: {{ tpl .Values.other . }}\n", "values.yaml",
		"text: '{{ now }} {{ randInt 1 2 }}'\nother: plain")
	require.Equal(t, map[string]any{"value": "{{ now }} {{ randInt 1 2 }}", "more": "plain"}, rendered(t, in)["data"])
}
