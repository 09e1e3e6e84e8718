package checks

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// longestExpression is the maximum expression length in the RolloutPolicy schema.
const longestExpression = 2048

// fill returns an expression of almost the maximum length. It repeats part before middle, and end after middle, equally
// often.
func fill(before, part, middle, end, after string) string {
	n := (longestExpression - len(before) - len(middle) - len(after)) / (len(part) + len(end))
	return before + strings.Repeat(part, n) + middle + strings.Repeat(end, n) + after
}

// Without limits, compiling these expressions would take seconds or exhaust the machine's memory.
func TestHostileExpressionsCompileQuickly(t *testing.T) {
	for name, text := range map[string]string{
		"optMap chain":           fill("optional.of(1)", ".optMap(x,x)", "", "", ".hasValue()"),
		"optFlatMap chain":       fill("optional.of(1)", ".optFlatMap(x,optional.of(x))", "", "", ".hasValue()"),
		"nested optMap":          fill("", "optional.of(1).optMap(x,", "1", ")", ".hasValue()"),
		"nested map":             fill("", "[1].map(x,", "1", ")", ".size() == 1"),
		"nested exists_one":      fill("", "[1].exists_one(x,", "true", ")", ""),
		"nested lists":           fill("", "[", "1", "]", ".size() == 1"),
		"nested maps":            fill("", "{1:", "1", "}", ".size() == 1"),
		"nested optional values": fill("", "optional.of(", "1", ")", ".hasValue()"),
		"nested negations":       fill("", "!", "true", "", ""),
		"long sum":               fill("1", "+1", "", "", " == 1"),
		"many lists":             fill("[", strings.Repeat("[", 30)+"1"+strings.Repeat("]", 30)+",", "[1]", "", "] == []"),
		"many maps": fill("[", strings.Repeat("{1:", 28)+"1"+strings.Repeat("}", 28)+",", "{1:1}", "",
			"] == []"),
		"long chain of field selections": fill("body", ".?a", "", "", ".hasValue()"),
	} {
		t.Run(name, func(t *testing.T) {
			require.LessOrEqual(t, len(text), longestExpression)
			started := time.Now()
			_, err := Compile(text)
			require.Less(t, time.Since(started), 5*time.Second, "error: %v", err)
		})
	}
}

func TestOptMapUsesItsReceiversValue(t *testing.T) {
	for text, want := range map[string]bool{
		`body.?a.optMap(v, v + 1).orValue(0) == 3`:                                         true,
		`body.?b.optMap(v, v + 1).orValue(0) == 0`:                                         true,
		`body.?a.optMap(v, v + 1).optMap(v, v * 10).value() == 30`:                         true,
		`body.?a.optMap(v, body.?c.optMap(w, v + w).orValue(0)).value() == 7`:              true,
		`body.?a.optFlatMap(v, body.?c).value() == 5`:                                      true,
		`body.?a.optFlatMap(v, body.?b).hasValue()`:                                        false,
		`body.?c.optFlatMap(v, optional.of(v).optFlatMap(w, optional.of(w))).value() == 5`: true,
	} {
		program, err := Compile(text)
		require.NoError(t, err, text)
		got, _, err := program.Eval(map[string]any{VarBody: map[string]any{"a": 2, "c": 5}, VarObjects: []any{}})
		require.NoError(t, err, text)
		require.Equal(t, want, got.Value(), text)
	}
}

func TestErrorForUselessCheckNamesTheField(t *testing.T) {
	seconds := func(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Second} }
	cel := func(text string) fleet.Check { return fleet.Check{CEL: &fleet.CELCheck{Expression: text}} }
	http := func(text string, latency, timeout int) fleet.Check {
		return fleet.Check{
			HTTP: &fleet.HTTPCheck{Expression: text, MaxLatency: seconds(latency)}, Timeout: seconds(timeout),
		}
	}
	for name, c := range map[string]struct {
		check       fleet.Check
		field, text string
	}{
		"check without a kind":             {fleet.Check{}, "", ""},
		"valid cel check":                  {cel(`objects.all(o, o.status.state == "Ready")`), "", ""},
		"valid http check":                 {http("body.queue < 100", 9, 0), "", ""},
		"http check without an expression": {http("", 0, 0), "", ""},
		"syntax error":                     {cel("objects.all("), "cel.expression", "line 1, column 13: Syntax error"},
		"undeclared variable": {
			cel("true &&\n  object.size() == 0"), "cel.expression", "line 2, column 3: undeclared reference to 'object'",
		},
		"wrong type": {
			cel("objects.size()"), "cel.expression", "the expression returns int, must return a boolean",
		},
		"error in an http expression": {
			http("response.queue < 100", 0, 0), "http.expression", "undeclared reference to 'response'",
		},
		"maxLatency equal to the default timeout": {
			http("", 10, 0), "http.maxLatency", "maxLatency is 10s, must be less than timeout, which is 10s",
		},
		"maxLatency above the timeout": {
			http("true", 31, 30), "http.maxLatency", "maxLatency is 31s, must be less than timeout, which is 30s",
		},
		"maxLatency below a configured timeout": {http("", 29, 30), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := Validate([]fleet.Check{{}, c.check}, field.NewPath("spec", "checks"))
			if c.field == "" {
				require.Nil(t, err)
				return
			}
			require.NotNil(t, err)
			require.Equal(t, "spec.checks[1]."+c.field, err.Field)
			require.Contains(t, err.Detail, c.text)
			require.LessOrEqual(t, len(err.Detail), bundle.MaxCheckMessageBytes)
		})
	}
}

func TestShippedCheckWithUselessMaxLatencyIsInvalid(t *testing.T) {
	limit := metav1.Duration{Duration: DefaultTimeout}
	shipped := []fleet.Check{{Name: "a", HTTP: &fleet.HTTPCheck{MaxLatency: limit}}}
	definitions := Define([]fleet.Check{{Name: "a"}}, shipped, "")
	state := Continue(definitions, nil)[0]
	require.Equal(t, v1beta2.CheckInconclusive, state.Result)
	require.Equal(t, "maxLatency is 10s, must be less than timeout, which is 10s", state.Message)
}
