package install

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/render"
)

// counting is a RoundTripper that counts reads of single Deployments.
type counting struct {
	http.RoundTripper
	reads *atomic.Int64
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/deployments/") {
		c.reads.Add(1)
	}
	return c.RoundTripper.RoundTrip(r)
}

func TestDriftCorrectionReadsAndAppliesChangedObjectsOnly(t *testing.T) {
	const configMaps, deployments = 40, 12
	var renderings, reads atomic.Int64
	w := newWorldWith(t,
		Options{Render: func(_ context.Context, in render.Input) ([]*unstructured.Unstructured, error) {
			renderings.Add(1)
			return render.Render(in)
		}})
	w.halt()
	w.config.Wrap(func(to http.RoundTripper) http.RoundTripper { return counting{to, &reads} })
	w.start()
	ctx := t.Context()
	w.wants("crowd", crowd(configMaps, deployments, "example.org/one"), withConfigMapAsDefaultCR)
	for i := range deployments {
		w.runs(home, fmt.Sprintf("crowd-%d", i))
	}
	w.state("crowd", v1beta2.StateReady, "")

	t.Log("deleted objects are restored without rendering the module or reading its workloads")
	rendered, count := renderings.Load(), reads.Load()
	for i := range 5 {
		require.NoError(t, w.client.Delete(ctx, newCrowdConfigMap(fmt.Sprintf("crowd-%d", i))))
	}
	require.NoError(t, w.client.Delete(ctx, newCrowdConfigMap("crowd-default")))
	for i := range 5 {
		back := &corev1.ConfigMap{}
		w.eventually("the ConfigMap is restored", func() bool {
			return w.exists(back, home, fmt.Sprintf("crowd-%d", i))
		})
		require.Equal(t, map[string]string{"key": "value", "number": fmt.Sprint(i)}, back.Data)
		require.Equal(t, home+"/crowd", back.Annotations[v1beta2.AnnotationOwnedBy])
	}
	w.eventually("the default CR is created again", func() bool {
		return w.exists(&corev1.ConfigMap{}, home, "crowd-default")
	})
	require.Equal(t, rendered, renderings.Load())
	require.Less(t, reads.Load()-count, int64(deployments), "unchanged Deployments must not be read again")

	t.Log("a changed workload is corrected, and its failing status is reported")
	live := &appsv1.Deployment{}
	require.True(t, w.exists(live, home, "crowd-3"))
	live.Spec.Template.Spec.Containers[0].Image = "example.org/drift"
	require.NoError(t, w.client.Update(ctx, live))
	w.eventually("the image is reverted", func() bool {
		return w.exists(live, home, "crowd-3") && live.Spec.Template.Spec.Containers[0].Image == "example.org/one"
	})
	w.state("crowd", v1beta2.StateProcessing, "crowd-3")
	w.runs(home, "crowd-3")
	w.state("crowd", v1beta2.StateReady, "")
	require.Equal(t, rendered, renderings.Load())

	t.Log("a new version is rendered, and is not ready because of the previous version")
	w.wants("crowd", crowd(configMaps, deployments, "example.org/two"), withConfigMapAsDefaultCR)
	w.state("crowd", v1beta2.StateProcessing, "Deployment "+home+"/crowd-")
	require.Greater(t, renderings.Load(), rendered)
	for i := range deployments {
		w.eventually("the Deployment has the new image", func() bool {
			return w.exists(live, home, fmt.Sprintf("crowd-%d", i)) &&
				live.Spec.Template.Spec.Containers[0].Image == "example.org/two"
		})
		w.runs(home, fmt.Sprintf("crowd-%d", i))
	}
	w.state("crowd", v1beta2.StateReady, "")
}

func newCrowdConfigMap(name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	o.SetNamespace(home)
	o.SetName(name)
	return o
}

func withConfigMapAsDefaultCR(m *v1beta2.Manifest) {
	m.Spec.Resource, m.Spec.CustomResourcePolicy = newCrowdConfigMap("crowd-default"), v1beta2.PolicyCreateAndDelete
}
