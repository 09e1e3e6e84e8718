package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

const realworld = "../../../shared/realworld"

func TestReleasedKymaModulesAreInstalledAndUpgraded(t *testing.T) {
	if _, err := os.Stat(realworld); err != nil {
		t.Skip("shared/realworld does not exist next to this checkout")
	}
	ctx := t.Context()
	var flags []string
	for _, archive := range []string{"keda-1.7.0", "keda-1.8.0", "template-operator-1.0.5"} {
		path, err := filepath.Abs(filepath.Join(realworld, "ctf", archive))
		must(t, err)
		flags = append(flags, "--components", path)
	}
	f := newFleet(t, fleet.Options{PublisherFlags: flags})
	files, err := filepath.Glob(filepath.Join(realworld, "catalog", "module*-[kt]e*.yaml"))
	must(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		must(t, err)
		object := &unstructured.Unstructured{}
		must(t, yaml.Unmarshal(data, &object.Object))
		must(t, f.Control.Create(ctx, object))
	}
	r, err := f.AddRuntime(ctx, "one", "regular", "keda")
	must(t, err)
	must(t, r.UntilState(ctx, "keda", "1.7.0", v1beta2.StateReady))
	must(t, r.API.Get(ctx, inKyma("keda-manager"), &appsv1.Deployment{}))

	release := &v1beta2.ModuleReleaseMeta{ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: "keda"}}
	change(t, f.Control, release, func(release *v1beta2.ModuleReleaseMeta) {
		release.Spec.Channels[0].Version = "1.8.0"
	})
	must(t, r.UntilState(ctx, "keda", "1.8.0", v1beta2.StateReady))
	until(t, 20*time.Second, "the PriorityClass that 1.8.0 drops is pruned", func() (bool, string) {
		var classes schedulingv1.PriorityClassList
		if err := r.API.List(ctx, &classes); err != nil {
			return false, err.Error()
		}
		for _, c := range classes.Items {
			if c.Annotations[v1beta2.AnnotationOwnedBy] != "" {
				return false, c.Name
			}
		}
		return true, ""
	})
	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
		spec.Modules = append(spec.Modules, v1beta2.Module{
			Name: "template-operator", Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete,
			Channel: "fast",
		})
	}))
	operator := &v1beta2.ModuleReleaseMeta{}
	must(t, f.Control.Get(ctx, client.ObjectKey{Namespace: "kcp-system", Name: "template-operator"}, operator))
	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
		spec.Modules[1].Channel = operator.Spec.Channels[0].Channel
	}))
	until(t, 60*time.Second, "template-operator's Deployment is installed", func() (bool, string) {
		err := r.API.Get(ctx,
			client.ObjectKey{Namespace: "template-operator-system", Name: "template-operator-controller-manager"},
			&appsv1.Deployment{})
		return !apierrors.IsNotFound(err) && err == nil, fmt.Sprint(err)
	})
	must(t, r.UntilState(ctx, "template-operator", "1.0.5", v1beta2.StateReady))
}
