package probe

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/internal/checks"
)

func TestLargeChecksWaitForEachOther(t *testing.T) {
	memory := NewMemory()
	w := newWorld(t, func(o *Options) { o.Memory = memory })
	large := strings.Repeat(`{"a":1},`, 10_000)
	for i := range 2 {
		require.NoError(t, w.Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: w.namespace, Name: fmt.Sprint("large-", i), Labels: map[string]string{"large": "true"},
			},
			Data: map[string]string{"data": large},
		}))
	}
	objects := fleet.CELCheck{
		APIVersion: "v1", Kind: "ConfigMap", Namespace: w.namespace, Expression: "objects.size() == 2",
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"large": "true"}},
	}
	none := objects
	none.Selector, none.Expression = &metav1.LabelSelector{MatchLabels: map[string]string{"large": "no"}}, "true"
	many := w.serve(func(to http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(to, "["+large+"{}]")
	})
	small := w.serve(func(to http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(to, "[{}]") })
	body := func(s fleet.ServiceReference) *fleet.HTTPCheck {
		return &fleet.HTTPCheck{Service: s, Expression: "body.size() > 0"}
	}
	release, err := memory.acquire(t.Context())
	require.NoError(t, err)
	for name, c := range map[string]fleet.Check{"objects": {CEL: &objects}, "response": {HTTP: body(many)}} {
		c.Timeout.Duration = 2 * time.Second
		m := w.measure(c)
		require.Equal(t, checks.Unknown, m.Verdict, name)
		require.Contains(t, m.Message, "did not end within", name)
	}
	for name, c := range map[string]fleet.Check{"objects": {CEL: &none}, "response": {HTTP: body(small)}} {
		m := w.measure(c)
		require.Equal(t, checks.Success, m.Verdict, "small %s: %s", name, m.Message)
	}
	release()
	for range 2 { // the second run can succeed only if the first one released its memory
		for name, c := range map[string]fleet.Check{"objects": {CEL: &objects}, "response": {HTTP: body(many)}} {
			c.Timeout.Duration = 30 * time.Second
			m := w.measure(c)
			require.Equal(t, checks.Success, m.Verdict, "large %s: %s", name, m.Message)
		}
	}
}

func TestCheckIsUnknownIfItsObjectsNeedTooMuchMemory(t *testing.T) {
	w := newWorld(t)
	for i := range 4 {
		require.NoError(t, w.Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: fmt.Sprint("bomb-", i)},
			Data:       map[string]string{"data": strings.Repeat("{", 60_000)},
		}))
	}
	m := w.measure(fleet.Check{CEL: &fleet.CELCheck{
		APIVersion: "v1", Kind: "ConfigMap", Namespace: w.namespace, Expression: "objects.size() > 0",
	}})
	require.Equal(t, checks.Unknown, m.Verdict)
	require.Contains(t, m.Message, "the objects need more than 64 MiB of memory: use a namespace or a selector")
}

func TestDecodedSizeIsNotUnderestimated(t *testing.T) {
	for name, text := range map[string]string{
		"small objects": strings.Repeat(`{"a":1},`, 10_000), "empty objects": strings.Repeat(`{},`, 10_000),
		"lists": strings.Repeat(`[],`, 10_000), "numbers": strings.Repeat(`1,`, 10_000),
		"strings": strings.Repeat(`"a",`, 10_000), "fields": "{" + fields(10_000) + `"z":0},`,
		"nested objects": strings.Repeat(`{"a":{"b":{"c":1}}},`, 10_000),
	} {
		body := []byte("[" + text + "0]")
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var decoded any
		require.NoError(t, utiljson.Unmarshal(body, &decoded))
		runtime.GC()
		runtime.ReadMemStats(&after)
		used := int64(after.HeapAlloc) - int64(before.HeapAlloc) //nolint:gosec // far below the limit
		require.LessOrEqual(t, used, decodedBytes(body), "%s: %d bytes of JSON need %d bytes", name, len(body), used)
		runtime.KeepAlive(decoded)
		runtime.KeepAlive(body)
	}
}

func fields(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `"f%d":%d,`, i, i)
	}
	return text.String()
}
