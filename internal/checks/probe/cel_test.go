package probe

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/internal/checks"
)

func TestExpressionsAreEvaluatedOverObjects(t *testing.T) {
	w := newWorld(t)
	for i := range 3 {
		require.NoError(t, w.Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: w.namespace,
				Name:      fmt.Sprintf("m%d", i),
				Labels:    map[string]string{"n": fmt.Sprint(i)},
			},
			Data: map[string]string{"state": "Ready", "text": strings.Repeat("a", 100)},
		}))
	}
	for name, c := range map[string]struct {
		expression string
		selector   *metav1.LabelSelector
		kind       string
		want       checks.Verdict
		text       string
	}{
		"expression over all objects": {
			expression: `objects.size() == 3 && objects.all(o, o.data.state == "Ready")`, want: checks.Success,
		},
		"label selector": {
			expression: `objects.size() == 1`,
			selector:   &metav1.LabelSelector{MatchLabels: map[string]string{"n": "1"}}, want: checks.Success,
		},
		"selector without matches": {
			expression: `objects.size() == 0`,
			selector:   &metav1.LabelSelector{MatchLabels: map[string]string{"n": "9"}}, want: checks.Success,
		},
		"false expression": {
			expression: `objects.exists(o, o.data.state == "Error")`, want: checks.Failure, text: "false for 3 objects",
		},
		"managed fields are removed": {
			expression: `objects.all(o, !has(o.metadata.managedFields))`, want: checks.Success,
		},
		"optional field": {expression: `objects.all(o, o.?data.?more.orValue("") == "")`, want: checks.Success},
		"missing field": {
			expression: `objects.all(o, o.status.ready)`, want: checks.Unknown, text: "no such key",
		},
		"result is a number": {expression: `objects.size()`, want: checks.Unknown, text: "must return a boolean"},
		"syntax error":       {expression: `objects.all(`, want: checks.Unknown, text: "compile the expression"},
		"unknown variable":   {expression: `secrets.size() == 0`, want: checks.Unknown, text: "undeclared reference"},
		"unknown kind":       {expression: `true`, kind: "Nothing", want: checks.Unknown, text: "no matches for kind"},
		"nested loops":       {expression: bomb(8), want: checks.Unknown, text: "cost limit exceeded"},
		"expression that builds a long string": {
			expression: "(" + growing(10) + ").size() > 0", want: checks.Unknown, text: "cost limit exceeded",
		},
		"deeply nested parentheses": {
			expression: strings.Repeat("(", 400) + "true" + strings.Repeat(")", 400), want: checks.Unknown,
			text: "compile the expression",
		},
	} {
		t.Run(name, func(t *testing.T) {
			kind := "ConfigMap"
			if c.kind != "" {
				kind = c.kind
			}
			if c.selector == nil {
				c.selector = &metav1.LabelSelector{
					MatchExpressions: []metav1.LabelSelectorRequirement{
						{Key: "n", Operator: metav1.LabelSelectorOpExists},
					},
				}
			}
			m := w.measure(
				fleet.Check{
					CEL: &fleet.CELCheck{
						APIVersion: "v1",
						Kind:       kind,
						Namespace:  w.namespace,
						Selector:   c.selector,
						Expression: c.expression,
					},
				},
			)
			require.Equal(t, c.want, m.Verdict, m.Message)
			require.Contains(t, m.Message, c.text)
		})
	}
	m := w.measure(fleet.Check{CEL: &fleet.CELCheck{Expression: "1 + 1 == 2"}})
	require.Equal(t, checks.Success, m.Verdict, "an expression that does not use objects")
}

func bomb(depth int) string {
	if depth == 0 {
		return "true"
	}
	return fmt.Sprintf("[0,1,2,3,4,5,6,7,8,9].all(v%d, %s)", depth, bomb(depth-1))
}

// growing returns an expression that evaluates to a string of 8^depth letters.
func growing(depth int) string {
	text := `"a"`
	for range depth {
		text = fmt.Sprintf("[%s].map(t, %s)[0]", text, strings.Join(slices.Repeat([]string{"t"}, 8), " + "))
	}
	return text + ` + "b"`
}

func TestCheckWithMoreThan500ObjectsIsInconclusive(t *testing.T) {
	w := newWorld(t)
	for i := range maxObjects + 1 {
		require.NoError(t, w.Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: fmt.Sprint("m", i)},
		}))
	}
	m := w.measure(
		fleet.Check{
			CEL: &fleet.CELCheck{APIVersion: "v1", Kind: "ConfigMap", Namespace: w.namespace, Expression: "true"},
		},
	)
	require.Equal(t, checks.Unknown, m.Verdict)
	require.Contains(t, m.Message, "more than 500 objects")
}

// The RESTMapper also accepts kinds in lower case: it maps "secret" to the resource "secrets".
func TestChecksCannotReadSecrets(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "key"}, Data: map[string][]byte{"key": []byte("a")},
	}))
	for kind, text := range map[string]string{
		"Secret": "a check cannot read Secrets", "secret": "a check cannot read Secrets", "SECRET": "no matches for kind",
		"SecretList": "could not find the requested resource", "secretlist": "no matches for kind",
	} {
		m := w.measure(fleet.Check{CEL: &fleet.CELCheck{
			APIVersion: "v1", Kind: kind, Namespace: w.namespace, Expression: `objects.exists(o, o.data.key == "YQ==")`,
		}})
		require.Equal(t, checks.Unknown, m.Verdict, kind)
		require.Contains(t, m.Message, text, kind)
	}
}
