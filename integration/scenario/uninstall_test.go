package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
	"github.com/kyma-pull/kyma-pull/internal/cli/clitest"
)

// contexts writes one kubeconfig with a context for each given kubeconfig.
func contexts(t *testing.T, kubeconfigs map[string]string) string {
	t.Helper()
	all := api.NewConfig()
	for name, path := range kubeconfigs {
		one, err := clientcmd.LoadFromFile(path)
		must(t, err)
		current := one.Contexts[one.CurrentContext]
		all.Clusters[name], all.AuthInfos[name] = one.Clusters[current.Cluster], one.AuthInfos[current.AuthInfo]
		all.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, clientcmd.WriteToFile(*all, path))
	return path
}

// uninstall runs the named blocks in the guide on a runtime, without the Helm commands.
func uninstall(t *testing.T, f *fleet.Fleet, r *fleet.Runtime, name string) {
	t.Helper()
	s := newShell(t, f.Dir, f.Binaries(), "kymas.operator.kyma-project.io berlin", "kymas.operator.kyma-project.io "+
		r.ID)
	helm := t.TempDir()
	must(t, os.WriteFile(filepath.Join(helm, "helm"), []byte("#!/bin/sh\n"), 0o700))
	kubeconfig := contexts(t, map[string]string{
		"kcp": filepath.Join(f.Dir, "kcp.kubeconfig"), "berlin": r.Kubeconfig(),
	})
	s.env = append(s.env, "PATH="+helm+":"+pathOf(s.env), "KUBECONFIG="+kubeconfig)
	found := false
	for _, b := range clitest.Shell(t, checkout) {
		if b.Page == "docs/guides/uninstall.md" && b.Info == "sh test="+name {
			found = true
			s.run(b.Script)
		}
	}
	if !found {
		t.Fatalf("docs/guides/uninstall.md has no commands for %s", name)
	}
}

// checkDeletionWaits checks that a runtime's Kyma in the control plane is being deleted but still exists.
func checkDeletionWaits(t *testing.T, f *fleet.Fleet, id string) {
	t.Helper()
	kyma := &v1beta2.Kyma{}
	must(t, f.Control.Get(t.Context(), client.ObjectKey{Namespace: sample.Namespace, Name: id}, kyma))
	if kyma.DeletionTimestamp == nil {
		t.Errorf("Kyma %s is not being deleted", id)
	}
}

// The test follows docs/guides/uninstall.md with each combination of running and stopped agent and publisher.
func TestUninstallInAnyOrderLeavesNoStuckObjects(t *testing.T) {
	suite.Long(t) // the short suite runs TestDeletedKymaLeavesAnEmptyRuntime
	ctx := t.Context()
	f := newFleet(t, fleet.Options{})
	berlin := runtimeWith(t, f, "berlin", map[string]string{"scaler": "1.7.0"})
	tokyo := runtimeWith(t, f, "tokyo", map[string]string{"scaler": "1.7.0"})

	t.Log("Uninstall a working runtime.")
	uninstall(t, f, berlin, "in-order")
	untilForgotten(t, berlin, time.Minute)
	untilEmpty(t, berlin)
	must(t, berlin.Agent().Stop())
	uninstall(t, f, berlin, "agent-leaves")
	uninstall(t, f, berlin, "agent-definitions")
	checkAgentRemoved(t, berlin)

	t.Log("Uninstall a runtime whose agent was removed too early.")
	must(t, tokyo.Agent().Stop())
	deleteKyma(t, f, tokyo)
	must(t, tokyo.API.Delete(ctx, &v1beta2.Manifest{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: "scaler"},
	}))
	untilQuiet(t, f)
	checkDeletionWaits(t, f, "tokyo")
	uninstall(t, f, tokyo, "agent-first")
	untilForgotten(t, tokyo, time.Minute)
	uninstall(t, f, tokyo, "agent-leaves")
	uninstall(t, f, tokyo, "agent-definitions")
	checkAgentRemoved(t, tokyo)
	// Without an agent, the module's objects stay in the runtime.
	must(t, tokyo.API.Get(ctx, inKyma("scaler-manager"), &appsv1.Deployment{}))

	t.Log("Uninstall a working control plane.")
	must(t, f.Control.Create(ctx, fleet.NewKyma("oslo", "regular", "scaler")))
	uninstall(t, f, tokyo, "control-plane")
	var kymas v1beta2.KymaList
	must(t, f.Control.List(ctx, &kymas))
	if len(kymas.Items) > 0 {
		t.Errorf("Kyma %s still exists", kymas.Items[0].Name)
	}

	t.Log("Uninstall a control plane whose publisher was removed too early.")
	lima := fleet.NewKyma("lima", "regular", "scaler")
	must(t, f.Control.Create(ctx, lima))
	until(t, time.Minute, "Kyma lima has its finalizer", func() (bool, string) {
		err := f.Control.Get(ctx, client.ObjectKeyFromObject(lima), lima)
		return err == nil && slices.Contains(lima.Finalizers, v1beta2.FinalizerKyma), fmt.Sprint(lima.Finalizers, err)
	})
	must(t, f.Publisher().Stop())
	must(t, f.Control.Delete(ctx, lima))
	checkDeletionWaits(t, f, "lima")
	uninstall(t, f, tokyo, "publisher-first")
	must(t, f.Control.List(ctx, &kymas))
	if len(kymas.Items) > 0 {
		t.Errorf("Kyma %s still exists", kymas.Items[0].Name)
	}
}

// checkAgentRemoved checks that all of the agent's objects in a runtime are deleted, except namespace kyma-system.
func checkAgentRemoved(t *testing.T, r *fleet.Runtime) {
	t.Helper()
	var secrets corev1.SecretList
	must(t, r.API.List(t.Context(), &secrets, client.InNamespace(v1beta2.RuntimeNamespace)))
	for _, s := range secrets.Items {
		t.Errorf("%s still has Secret %s", r.ID, s.Name)
	}
	until(t, time.Minute, r.ID+" no longer serves Kymas", func() (bool, string) {
		_, err := r.Kyma(t.Context())
		return meta.IsNoMatchError(err) || apierrors.IsNotFound(err), fmt.Sprint(err)
	})
}
