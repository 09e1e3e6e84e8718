package scenario

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// free counts the addresses that were handed out.
var free atomic.Int32

// freeAddress is one that a program can listen on later. Each has an IP of its own, as on 127.0.0.1 the port would soon be another program's.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.1.%d:0", free.Add(1)))
	must(t, err)
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

func TestAKymaOfTheOldVersionGetsABundle(t *testing.T) {
	ctx, address := t.Context(), freeAddress(t)
	f := newFleet(t, fleet.Options{
		PublisherFlags:  []string{"--webhook-url", "https://" + address, "--webhook-bind-address", address},
		PublisherRights: []string{"publisher.yaml", "webhooks.yaml"},
	})
	old := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "operator.kyma-project.io/v1beta1", "kind": "Kyma",
		"metadata": map[string]any{"namespace": sample.Namespace, "name": "old"},
		"spec": map[string]any{
			"channel": "regular", "modules": []any{map[string]any{"name": "scaler"}},
			"sync": map[string]any{"enabled": true, "moduleCatalog": true, "namespace": v1beta2.RuntimeNamespace},
		},
	}}
	until(t, 30*time.Second, "a Kyma of v1beta1 is taken", func() (bool, string) {
		err := client.IgnoreAlreadyExists(f.Control.Create(ctx, old.DeepCopy()))
		return err == nil, fmt.Sprint(err)
	})
	until(t, 30*time.Second, "it has a bundle", func() (bool, string) {
		var kyma v1beta2.Kyma
		err := f.Control.Get(ctx, client.ObjectKey{Namespace: sample.Namespace, Name: "old"}, &kyma)
		return err == nil && kyma.Status.Runtime != nil && kyma.Status.Runtime.Published != nil, fmt.Sprint(err, kyma.Status)
	})
	broken := &v1beta2.ModuleTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: sample.Namespace, Name: "scaler-9.0.0"},
		Spec:       v1beta2.ModuleTemplateSpec{ModuleName: "scaler", Version: "9.0.0", Descriptor: runtime.RawExtension{Raw: []byte(`{"meta":{"schemaVersion":"v9"}}`)}},
	}
	if err := f.Control.Create(ctx, broken); err == nil || !strings.Contains(err.Error(), "spec.descriptor: component descriptor: meta.schemaVersion") {
		t.Errorf("a template that nobody could resolve: %v", err)
	}
	rights, err := f.PublisherRights()
	must(t, err)
	lacksNothing(t, "publisher", rights)
	// Whoever works with v1beta2 needs no publisher.
	f.Publisher().Kill()
	broken.Spec.Descriptor.Raw = []byte("{}")
	must(t, f.Control.Create(ctx, broken))
}
