package install

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/assets"
	"github.com/kyma-pull/kyma-pull/hack/pristine"
	"github.com/kyma-pull/kyma-pull/hack/suite"
)

// startOldest starts the oldest supported API server. upgrade replaces it with the usual version, with the same etcd
// and address.
func startOldest(t *testing.T) (config *rest.Config, upgrade func()) {
	t.Helper()
	oldest, usual := assets.CachedLimit("oldest"), os.Getenv(assets.EnvDir)
	if oldest == "" || usual == "" {
		t.Skipf("needs kube-apiserver %s, which make test-kubernetes builds", assets.Limits["oldest"])
	}
	env := &envtest.Environment{
		CRDDirectoryPaths: []string{
			filepath.Join("..", "..", "..", "charts", "skr-agent", "crds"),
		}, ErrorIfCRDPathMissing: true, UseExistingCluster: new(false), ControlPlaneStopTimeout: time.Minute,
	}
	api := env.ControlPlane.GetAPIServer()
	api.Path, api.CertDir = oldest, t.TempDir() // envtest does not delete this folder
	api.Configure().Set("disable-admission-plugins", "ServiceAccount").
		Set("shutdown-watch-termination-grace-period", "1s")
	config, err := pristine.Start(env)
	require.NoError(t, err)
	config.QPS = -1
	t.Cleanup(func() { require.NoError(t, env.Stop()) })
	return config, func() {
		t.Helper()
		require.NoError(t, api.Stop())
		api.Path = filepath.Join(usual, "kube-apiserver")
		require.NoError(t, api.Start())
	}
}

// Version v1beta3 of FlowSchemas exists in the oldest supported Kubernetes, but not in the usual one.
func flowSchema(version, name, precedence string) string {
	return "apiVersion: flowcontrol.apiserver.k8s.io/" + version + "\nkind: FlowSchema\nmetadata: {name: " + name + "}\n" +
		"spec: {matchingPrecedence: " + precedence + ", priorityLevelConfiguration: {name: exempt}}\n---\n"
}

func TestKubernetesUpgradeKeepsModules(t *testing.T) {
	suite.Long(t) // the short suite runs TestPruneDeletesObjectsOfUnservedVersions
	config, upgrade := startOldest(t)
	w := newWorldAt(t, config, Options{})
	flow := &flowcontrolv1.FlowSchema{}
	exists := func(name string) bool { return w.exists(flow, "", name) }
	w.wants("serving", sampleCRD+flowSchema("v1beta3", "serving", "9000")+aConfigMap("serving"), version("1.0.0"),
		withDefaultCR)
	w.wants("leaving", flowSchema("v1beta3", "leaving", "9001")+aConfigMap("leaving"), version("1.0.0"))
	w.wants("dropping", flowSchema("v1beta3", "dropping", "9002")+aConfigMap("dropping"), version("1.0.0"))
	for _, module := range []string{"leaving", "dropping", "serving"} {
		w.state(module, v1beta2.StateReady, "")
		require.True(t, exists(module))
	}
	before := flow.UID

	upgrade()
	w.eventually("the API server does not serve v1beta3", func() bool {
		return apierrors.IsNotFound(w.client.Get(t.Context(), client.ObjectKey{Name: "serving"},
			custom("flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema", "", "serving")))
	})
	check := func(modules ...string) {
		t.Helper()
		for _, module := range modules {
			w.eventually("the API server responds", func() bool {
				return client.IgnoreNotFound(w.client.Delete(t.Context(), configMap(module, nil))) == nil
			})
			w.eventually("drift is reverted", func() bool { return w.exists(&corev1.ConfigMap{}, home, module) })
			require.True(t, exists(module), "the upgrade must not delete the FlowSchema")
			w.state(module, v1beta2.StateError, "in this version: change apiVersion to flowcontrol.apiserver.k8s.io/v1")
		}
	}
	check("serving", "leaving", "dropping")
	t.Log("an object in a version that is not served is deleted")
	w.wants("dropping", aConfigMap("dropping"), version("2.0.0"))
	w.state("dropping", v1beta2.StateReady, "")
	require.False(t, exists("dropping"))
	w.halt()
	w.start()
	check("serving", "leaving")

	t.Log("a version with a served API version updates the same object")
	w.wants("serving", sampleCRD+flowSchema("v1", "serving", "9100")+aConfigMap("serving"), version("2.0.0"),
		withDefaultCR)
	w.state("serving", v1beta2.StateReady, "")
	require.True(t, exists("serving"))
	require.Equal(t, before, flow.UID)
	require.EqualValues(t, 9100, flow.Spec.MatchingPrecedence)
	require.True(t, w.exists(sample("default", home), home, "default"))

	t.Log("the removal of a module also deletes such an object")
	w.remove("leaving")
	w.eventually("the module is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "leaving") })
	require.False(t, exists("leaving"))
}
