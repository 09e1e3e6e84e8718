// Command record runs Kyma's lifecycle-manager over two API servers and records its writes, stage by stage, for
// integration/landscape. README.md beside it has the steps.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/landscape"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

func main() {
	source := flag.String("source", "", "checked-out lifecycle-manager with its binary bin/manager")
	commit := flag.String("commit", "", "its commit")
	into := flag.String("into", filepath.Join("integration", "landscape", "recorded"), "folder for the recording")
	flag.Parse()
	if err := run(context.Background(), *source, *commit, *into); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

// recording is one control plane with one runtime and a running lifecycle-manager.
type recording struct {
	fleet   *fleet.Fleet
	runtime *fleet.Runtime
	kyma    *v1beta2.Kyma
	into    string
	replace []string // pairs of a value of this run and its constant
}

func run(ctx context.Context, source, commit, into string) (err error) {
	f, err := fleet.Start(ctx, fleet.Options{Progress: os.Stderr, PublisherFlags: []string{"--watch-label-selector", v1beta2.LabelTakeover}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r := &recording{fleet: f, into: filepath.Join(into, commit[:8])}
	if err := r.prepare(ctx, source); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(os.TempDir(), "lifecycle-manager.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	host, path, _ := strings.Cut(f.Components(), "/")
	manager := exec.CommandContext(ctx, filepath.Join(source, "bin", "manager"), "--kubeconfig", f.ControlKubeconfig(), "--leader-elect=false",
		"--oci-registry-host", host, "--modules-repository-subpath", path, "--skr-watcher-image-tag", "1.0.0", "--skr-watcher-image-registry", "registry.example",
		"--metrics-bind-address", "127.0.0.1:0", "--health-probe-bind-address", "127.0.0.1:0", "--kyma-skr-listener-bind-address", "127.0.0.1:0",
		"--kyma-requeue-success-interval", "2s", "--manifest-requeue-success-interval", "2s", "--module-upgrade-rollout-max-delay", "0s")
	manager.Dir, manager.Stdout, manager.Stderr = source, log, log
	if err := manager.Start(); err != nil {
		return err
	}
	defer func() { _ = manager.Process.Kill() }()
	r.replace = append(r.replace, host, "registry.example")
	return r.record(ctx)
}

// prepare creates the objects that lifecycle-manager requires: definitions of Istio and cert-manager, a Gateway, and the
// Secrets of its certificates.
func (r *recording) prepare(ctx context.Context, source string) error {
	for _, name := range []string{"istio-v1.17.1.crds.yaml", "cert-manager-v1.10.1.crds.yaml"} {
		data, err := os.ReadFile(filepath.Join(source, "config", "samples", "tests", "crds", name))
		if err != nil {
			return err
		}
		definitions, err := landscape.Objects(string(data))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, o := range definitions {
			if err := r.fleet.Control.Create(ctx, o); err != nil {
				return fmt.Errorf("create %s %s: %w", o.GetKind(), o.GetName(), err)
			}
		}
	}
	const needed = `---
apiVersion: v1
kind: Namespace
metadata: {name: istio-system}
---
apiVersion: networking.istio.io/v1beta1
kind: Gateway
metadata: {name: klm-watcher, namespace: kcp-system}
spec:
  selector: {istio: ingressgateway}
  servers:
  - hosts: [listener.example]
    port: {name: https, number: 443, protocol: HTTPS}
    tls: {credentialName: klm-istio-gateway, mode: MUTUAL}
---
apiVersion: v1
kind: Secret
metadata: {name: klm-istio-gateway, namespace: istio-system}
type: kubernetes.io/tls
stringData: {tls.crt: a, tls.key: a, ca.crt: a}
---
apiVersion: v1
kind: Secret
metadata: {name: klm-watcher, namespace: istio-system}
type: kubernetes.io/tls
stringData: {tls.crt: a, tls.key: a, ca.crt: a}
---
apiVersion: v1
kind: Secret
metadata: {name: one-webhook-tls, namespace: istio-system}
type: kubernetes.io/tls
stringData: {tls.crt: a, tls.key: a, ca.crt: a}
`
	objects, err := landscape.Objects(needed)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := fleet.Until(ctx, time.Minute, "create "+o.GetKind(), func() (bool, string) {
			err := r.fleet.Control.Create(ctx, o.DeepCopy())
			return err == nil, fmt.Sprint(err)
		}); err != nil {
			return err
		}
	}
	return r.offer(ctx)
}

// offer adds the modules and the runtime with its kubeconfig.
func (r *recording) offer(ctx context.Context) error {
	if err := r.fleet.Offer(ctx, sample.Scaler("1.7.0"), sample.Scaler("1.8.0"), sample.Mailer("1.0.0")); err != nil {
		return err
	}
	if err := r.fleet.Release(ctx, "scaler", sample.Scaler("").Component(), sample.Channel("regular", "1.7.0")); err != nil {
		return err
	}
	var err error
	if r.runtime, err = r.fleet.AddRuntime(ctx, "one", "regular"); err != nil {
		return err
	}
	r.runtime.Agent().Stop()
	data, err := os.ReadFile(r.runtime.Kubeconfig())
	if err != nil {
		return err
	}
	return r.fleet.Control.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: sample.Namespace, Name: "kubeconfig-one", Labels: map[string]string{v1beta2.LabelKymaName: "one"}},
		Data:       map[string][]byte{"config": data},
	})
}

// record drives lifecycle-manager through the stages.
func (r *recording) record(ctx context.Context) error {
	edit := func(change func(*v1beta2.KymaSpec)) func() error {
		return func() error { return r.runtime.EditKyma(ctx, change) }
	}
	for _, stage := range []struct {
		name string
		do   func() error
		seen func(*v1beta2.Kyma) bool
	}{
		{"install", edit(func(s *v1beta2.KymaSpec) {
			s.Modules = []v1beta2.Module{{Name: "scaler", Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete}}
		}), has("scaler", "1.7.0", v1beta2.StateReady)},
		{"upgrade", func() error {
			return r.fleet.Release(ctx, "scaler", sample.Scaler("").Component(), sample.Channel("regular", "1.8.0"))
		}, has("scaler", "1.8.0", v1beta2.StateReady)},
		{"mandatory", func() error {
			meta := sample.Release("mailer", sample.Mailer("").Component())
			meta.Spec.Channels, meta.Spec.Mandatory = nil, &v1beta2.Mandatory{Version: "1.0.0"}
			return r.fleet.Control.Create(ctx, meta)
		}, func(*v1beta2.Kyma) bool { return r.manifests(ctx) == 2 }},
		{"unmanaged", edit(func(s *v1beta2.KymaSpec) { s.Modules[0].Managed = false }), has("scaler", "1.8.0", v1beta2.StateUnmanaged)},
		{"managed", edit(func(s *v1beta2.KymaSpec) { s.Modules[0].Managed = true }), has("scaler", "1.8.0", v1beta2.StateReady)},
		{"deletion", func() error {
			kyma := &v1beta2.Kyma{}
			kyma.Namespace, kyma.Name = sample.Namespace, "one"
			return r.fleet.Control.Delete(ctx, kyma)
		}, nil},
	} {
		if err := fleet.Until(ctx, 2*time.Minute, stage.name+" begins", func() (bool, string) {
			err := stage.do()
			return err == nil, fmt.Sprint(err)
		}); err != nil {
			return err
		}
		if err := fleet.Until(ctx, 3*time.Minute, stage.name, func() (bool, string) {
			kyma, err := r.runtime.Record(ctx)
			if stage.seen == nil {
				return client.IgnoreNotFound(err) == nil && err != nil, fmt.Sprintf("%+v", kyma)
			}
			if err == nil {
				r.workloads(ctx)
			}
			return err == nil && stage.seen(kyma), fmt.Sprintf("%v %+v", err, kyma.Status)
		}); err != nil {
			return err
		}
		if err := r.dump(ctx, stage.name); err != nil {
			return fmt.Errorf("%s: %w", stage.name, err)
		}
	}
	return nil
}

func has(module, version string, state v1beta2.State) func(*v1beta2.Kyma) bool {
	return func(kyma *v1beta2.Kyma) bool {
		for _, m := range kyma.Status.Modules {
			if m.Name == module {
				return m.Version == version && m.State == state
			}
		}
		return false
	}
}

func (r *recording) manifests(ctx context.Context) int {
	var all v1beta2.ManifestList
	if err := r.fleet.Control.List(ctx, &all); err != nil {
		return 0
	}
	return len(all.Items)
}

// workloads does nothing: the fleet's runtimes make Deployments ready.
func (r *recording) workloads(context.Context) {}

// kinds are those that lifecycle-manager writes.
var kinds = map[string][]string{
	"v1": {"Namespace", "Secret", "ConfigMap", "Service", "ServiceAccount"}, "apps/v1": {"Deployment"}, "scheduling.k8s.io/v1": {"PriorityClass"},
	"rbac.authorization.k8s.io/v1":    {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"},
	"apiextensions.k8s.io/v1":         {"CustomResourceDefinition"},
	"admissionregistration.k8s.io/v1": {"ValidatingWebhookConfiguration"},
	"networking.k8s.io/v1":            {"NetworkPolicy"},
	"cert-manager.io/v1":              {"Certificate"},
	v1beta2.GroupVersion.String():     {"Kyma", "Manifest", "ModuleTemplate", "ModuleReleaseMeta", "Watcher"},
	"sample.kyma-pull.dev/v1":         {"Scaler", "Mailer"},
}

// dump writes the objects of both clusters that lifecycle-manager wrote or labeled.
func (r *recording) dump(ctx context.Context, stage string) error {
	found := map[string][]any{}
	for cluster, api := range map[string]client.Client{"control-plane": r.fleet.Control, "runtime": r.runtime.API} {
		for version, names := range kinds {
			for _, kind := range names {
				list := &unstructured.UnstructuredList{}
				list.SetAPIVersion(version)
				list.SetKind(kind + "List")
				if err := api.List(ctx, list); err != nil {
					continue // the kind is not served there
				}
				for i := range list.Items {
					if fact := factOf(&list.Items[i]); fact != nil {
						found[cluster] = append(found[cluster], fact)
					}
				}
			}
		}
		landscape.SortFacts(found[cluster])
	}
	data, err := json.MarshalIndent(found, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.into, 0o755); err != nil {
		return err
	}
	text := strings.NewReplacer(r.replace...).Replace(string(data)) + "\n"
	return os.WriteFile(filepath.Join(r.into, stage+".json"), []byte(text), 0o644)
}

// factOf returns the part of an object that a takeover depends on, nil for an object that lifecycle-manager did not
// write.
func factOf(o *unstructured.Unstructured) map[string]any {
	var managers []any
	theirs := false
	for _, e := range o.GetManagedFields() {
		theirs = theirs || isLifecycleManager(e.Manager)
		managers = append(managers, map[string]any{"manager": e.Manager, "operation": string(e.Operation), "subresource": e.Subresource})
	}
	if !theirs {
		return nil
	}
	fact := map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "name": o.GetName(), "namespace": o.GetNamespace(), "managers": managers}
	for key, value := range map[string]any{"labels": o.GetLabels(), "annotations": o.GetAnnotations(), "finalizers": o.GetFinalizers()} {
		if fmt.Sprint(value) != "map[]" && fmt.Sprint(value) != "[]" {
			fact[key] = value
		}
	}
	for _, owner := range o.GetOwnerReferences() {
		fact["owner"] = owner.Kind + " " + owner.Name
	}
	if o.GroupVersionKind().Group == v1beta2.Group {
		fact["status"] = withoutTimes(o.Object["status"])
		if o.GetKind() == "Manifest" {
			fact["spec"] = o.Object["spec"]
		}
	}
	for _, field := range []string{"data", "stringData"} {
		if data, is := o.Object[field].(map[string]any); is {
			var keys []string
			for key := range data {
				keys = append(keys, key)
			}
			fact["keys"] = keys
		}
	}
	return fact
}

func isLifecycleManager(manager string) bool {
	for _, name := range append(v1beta2.LifecycleManagerFieldManagers(), "manager") {
		if manager == name {
			return true
		}
	}
	return false
}

// withoutTimes replaces the times of this run.
func withoutTimes(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if strings.HasSuffix(key, "Time") {
				v[key] = "2026-01-01T00:00:00Z"
			} else {
				v[key] = withoutTimes(inner)
			}
		}
	case []any:
		for i := range v {
			v[i] = withoutTimes(v[i])
		}
	}
	return value
}
