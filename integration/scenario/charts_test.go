package scenario

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/chart"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// chartNamespaces maps each chart to its installation namespace.
var chartNamespaces = map[string]string{"kcp-publisher": sample.Namespace, "skr-agent": v1beta2.RuntimeNamespace}

// byChart runs the programs as the ServiceAccounts from their charts. values contains the chart values by
// program.
func byChart(values map[string]map[string]any) fleet.Account {
	return func(ctx context.Context, program string, admin *rest.Config) ([]byte, error) {
		objects, err := renderChart(program, values[program])
		if err != nil {
			return nil, err
		}
		cluster, err := client.New(admin, client.Options{})
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			if err := createNamespace(ctx, cluster, o.GetNamespace()); err != nil {
				return nil, err
			}
			if err := cluster.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("helm"),
				client.ForceOwnership); err != nil {
				return nil, fmt.Errorf("apply %s %s: %w", o.GetKind(), o.GetName(), err)
			}
		}
		account := &corev1.ServiceAccount{
			ObjectMeta: metav1.ObjectMeta{Namespace: chartNamespaces[program], Name: program},
		}
		request := &authenticationv1.TokenRequest{}
		if err := cluster.SubResource("token").Create(ctx, account, request); err != nil {
			return nil, fmt.Errorf("request a ServiceAccount token: %w", err)
		}
		return clientcmd.Write(api.Config{
			Clusters:       map[string]*api.Cluster{"c": {Server: admin.Host, CertificateAuthorityData: admin.CAData}},
			AuthInfos:      map[string]*api.AuthInfo{"u": {Token: request.Status.Token}},
			Contexts:       map[string]*api.Context{"x": {Cluster: "c", AuthInfo: "u"}},
			CurrentContext: "x",
		})
	}
}

// createNamespace creates a namespace if it does not exist, because the charts do not create it.
func createNamespace(ctx context.Context, cluster client.Client, name string) error {
	if name == "" {
		return nil
	}
	err := cluster.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	return client.IgnoreAlreadyExists(err)
}

func renderChart(name string, values map[string]any) ([]*unstructured.Unstructured, error) {
	release := chart.Release{
		Dir: filepath.Join("..", "..", "charts", name), Name: name, Namespace: chartNamespaces[name], Values: values,
	}
	rendered, err := release.Render()
	if err != nil {
		return nil, err
	}
	return rendered.Objects()
}

func minimal() map[string]any {
	return map[string]any{"location": "registry.example/fleet", "keys": map[string]any{"secretName": "keys"}}
}

// clientFor returns a client with a kubeconfig user's permissions.
func clientFor(t *testing.T, kubeconfig string) client.Client {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must(t, err)
	c, err := client.New(config, client.Options{})
	must(t, err)
	return c
}

// emptyObject returns an object with only a kind, a namespace and a name.
func emptyObject(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// emptyList returns an empty list for objects of a kind.
func emptyList(apiVersion, kind string) *unstructured.UnstructuredList {
	l := &unstructured.UnstructuredList{}
	l.SetAPIVersion(apiVersion)
	l.SetKind(kind + "List")
	return l
}

func refused(t *testing.T, attempts map[string]error) {
	t.Helper()
	for what, err := range attempts {
		if !apierrors.IsForbidden(err) {
			t.Errorf("attempt to %s: got error %v, want a refusal", what, err)
		}
	}
}

// checkAdmitted checks that the pod template in the namespace's Deployment passes the restricted Pod Security Standard.
func checkAdmitted(t *testing.T, cluster client.Client, namespace string) {
	t.Helper()
	strict := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
	must(t, cluster.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		client.RawPatch(types.MergePatchType, strict)))
	var deployments appsv1.DeploymentList
	must(t, cluster.List(t.Context(), &deployments, client.InNamespace(namespace),
		client.MatchingLabels{"app.kubernetes.io/managed-by": "Helm"}))
	if len(deployments.Items) != 1 {
		t.Fatalf("got %d Deployments in %s, want one", len(deployments.Items), namespace)
	}
	template := deployments.Items[0].Spec.Template
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "strict", Labels: template.Labels},
		Spec:       template.Spec,
	}
	must(t, cluster.Create(t.Context(), pod.DeepCopy(), client.DryRunAll))
	pod.Spec.Containers[0].SecurityContext = nil
	if err := cluster.Create(t.Context(), pod, client.DryRunAll); !apierrors.IsForbidden(err) {
		t.Errorf("a pod without a security context is admitted to %s, so the previous check proved nothing: %v",
			namespace, err)
	}
}

// checkNoDeniedRequests fails the test if the program's log contains a request that the API server denied.
func checkNoDeniedRequests(t *testing.T, log string) {
	t.Helper()
	if len(log) == 0 {
		t.Error("the program's log is empty")
	}
	for line := range strings.Lines(log) {
		if strings.Contains(line, "forbidden") {
			t.Errorf("the API server denied a request: %s", line)
		}
	}
}

// applyRole grants an agent the permissions in the output of `kcp-publisher component role`.
func applyRole(t *testing.T, f *fleet.Fleet, r *fleet.Runtime, versions ...sample.Version) {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "modules")
	must(t, sample.WriteArchive(t.Context(), archive, versions...))
	args := []string{"component", "role", "--components", "ctf:" + archive}
	for _, v := range versions {
		args = append(args, v.Component()+":"+v.Version)
	}
	output, exit := fleet.Run(t.Context(), f.Binaries().Publisher, args...)
	if exit != 0 {
		t.Fatal(output)
	}
	objects, err := chart.Rendered{Templates: map[string]string{"role": output}}.Objects()
	must(t, err)
	for _, o := range objects {
		must(t, r.API.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("kubectl")))
	}
}

// The chart's default permissions do not allow the agent to install modules. A role that is generated for a set of
// modules allows the agent to install only these modules.
func TestDefaultChartRightsSufficeForAModule(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{
		LeaderElect: true, Account: byChart(map[string]map[string]any{"kcp-publisher": minimal()}),
	})
	r, err := f.AddRuntime(ctx, "one", "regular", "scaler", "mailer")
	must(t, err)
	untilRefused(t, r, "scaler", "system:serviceaccount:kyma-system:skr-agent", "cannot")
	untilRefused(t, r, "mailer", "system:serviceaccount:kyma-system:skr-agent", "cannot")
	applyRole(t, f, r, sample.Scaler("1.7.0"), sample.Scaler("1.8.0"), sample.Mailer("1.0.0"))
	must(t, r.UntilState(ctx, "scaler", "1.7.0", v1beta2.StateReady))
	must(t, r.UntilState(ctx, "mailer", "1.0.0", v1beta2.StateReady))
	granted := len(r.Agent().Log())
	must(t, f.CreatePolicy(ctx, "scaler", v1alpha1.Course{
		Waves: []v1alpha1.Wave{
			{Name: "all", Percent: new(int32(100)), Deadline: metav1.Duration{Duration: time.Hour}},
		},
		OfflineAfter: metav1.Duration{Duration: time.Hour},
	}))
	promote(t, f, "1.8.0")
	must(t, r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
	must(t, f.UntilRollout(ctx, firstRollout, "the rollout has ended", func(s v1alpha1.RolloutStatus) bool {
		return s.FinishedAt != nil
	}))
	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
		spec.Modules = slices.DeleteFunc(spec.Modules, func(m v1beta2.Module) bool { return m.Name == "scaler" })
	}))
	must(t, r.UntilGone(ctx, "scaler"))
	must(t, r.UntilState(ctx, "mailer", "1.0.0", v1beta2.StateReady))
	agent := clientFor(t, r.AgentKubeconfig())
	refused(t, map[string]error{
		"list the Secrets of modules": agent.List(ctx, emptyList("v1", "Secret"),
			client.InNamespace(v1beta2.RuntimeNamespace)),
		"read a module's Secret": agent.Get(ctx,
			client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: "keda-credentials"},
			emptyObject("v1", "Secret", "", "")),
		"delete a module's Secret": agent.Delete(ctx,
			emptyObject("v1", "Secret", v1beta2.RuntimeNamespace, "keda-credentials")),
	})
	deleteKyma(t, f, r)
	untilForgotten(t, r, 60*time.Second)
	checkNoDeniedRequests(t, f.Publisher().Log())
	checkNoDeniedRequests(t, r.Agent().Log()[granted:])

	for namespace, cluster := range map[string]client.Client{sample.Namespace: f.Control,
		v1beta2.RuntimeNamespace: r.API} {
		checkAdmitted(t, cluster, namespace)
	}

	const ours = "operator.kyma-project.io/v1beta2"
	publisher := clientFor(t, f.PublisherKubeconfig())
	must(t, publisher.List(ctx, emptyList(ours, "Kyma"), client.InNamespace(sample.Namespace)))
	refused(t, map[string]error{
		"create a Secret":                   publisher.Create(ctx, emptyObject("v1", "Secret", sample.Namespace, "mine")),
		"list Secrets in another namespace": publisher.List(ctx, emptyList("v1", "Secret"), client.InNamespace("default")),
		"read a webhook's key": publisher.Get(ctx,
			client.ObjectKey{Namespace: sample.Namespace, Name: "kcp-publisher-webhook"},
			emptyObject("v1", "Secret", "", "")),
		"write a module's version": publisher.Create(ctx,
			emptyObject(ours, "ModuleTemplate", sample.Namespace, "mine-1.0.0")),
		"create a Kyma":                   publisher.Create(ctx, emptyObject(ours, "Kyma", sample.Namespace, "mine")),
		"delete a Kyma":                   publisher.Delete(ctx, emptyObject(ours, "Kyma", sample.Namespace, "one")),
		"list Kymas in another namespace": publisher.List(ctx, emptyList(ours, "Kyma"), client.InNamespace("default")),
		"delete a CRD": publisher.Delete(ctx,
			emptyObject("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "kymas.operator.kyma-project.io")),
		"register webhooks": publisher.Create(ctx,
			emptyObject("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "", "mine")),
		"delete another program's lease": publisher.Delete(ctx,
			emptyObject("coordination.k8s.io/v1", "Lease", sample.Namespace, "other")),
		"read another namespace": publisher.Get(ctx, client.ObjectKey{Name: "default"},
			emptyObject("v1", "Namespace", "", "")),
	})
}

// The publisher serves webhooks and requires signatures. The agent installs scaler as a separate ServiceAccount, and a
// bundle sets the agent's image.
func TestChartValuesGrantTheRightsTheyNeed(t *testing.T) {
	suite.Long(t) // the short suite runs TestDefaultChartRightsSufficeForAModule
	ctx, address := t.Context(), freeAddress(t)
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	must(t, os.WriteFile(policy,
		[]byte("apiVersion: kyma-pull.dev/v1\nkind: SignaturePolicy\nrules: [{components: '*', required: false}]\n"),
		0o600))
	publisher := minimal()
	publisher["webhook"] = map[string]any{"enabled": true}
	// The chart mounts this value as the signature policy file.
	publisher["signaturePolicy"] = map[string]any{
		"apiVersion": "kyma-pull.dev/v1", "kind": "SignaturePolicy",
		"rules": []any{map[string]any{"components": "*", "required": false}},
	}
	publisher["signatureKeysNamespace"] = "kcp-signatures"
	f := newFleet(t, fleet.Options{
		LeaderElect: true,
		PublisherFlags: []string{
			"--webhook-url", "https://" + address, "--set", "webhook-bind-address=" + address, "--signature-policy", policy,
			"--signature-keys-namespace", "kcp-signatures",
		},
		Account: byChart(map[string]map[string]any{
			"kcp-publisher": publisher,
			"skr-agent": {
				"rbac":        map[string]any{"clusterRoles": []any{"small-modules"}},
				"selfUpgrade": true, // by default, an agent with limited permissions does not upgrade itself
				"modules":     map[string]any{"serviceAccounts": map[string]any{"scaler": "modules"}},
			},
		}),
		AgentFlags: []string{"--module-service-account", "scaler=modules"},
	})
	until(t, 30*time.Second, "v1beta1 is served", func() (bool, string) {
		err := f.Control.List(ctx, emptyList("operator.kyma-project.io/v1beta1", "Kyma"))
		return err == nil, fmt.Sprint(err)
	})
	r, err := f.AddRuntime(ctx, "one", "regular", "mailer")
	must(t, err)
	must(t, r.API.Create(ctx,
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "small-modules"}, Rules: []rbacv1.PolicyRule{
			writing("", "configmaps"), writing("apps", "deployments"),
		}}))
	must(t, r.UntilState(ctx, "mailer", "1.0.0", v1beta2.StateReady))

	t.Run("bundle sets the agent's image", func(t *testing.T) {
		own := deployed(t, r)
		first := own.Spec.Template.Spec.Containers[0].Image
		must(t, r.API.Patch(ctx, own,
			client.RawPatch(types.MergePatchType,
				fmt.Appendf(nil, `{"metadata":{"annotations":{"kyma-pull.dev/proven-image":%q}}}`, first))))
		becomePod(t, r, "agent-1", first)
		must(t, r.WantAgent(t.Context(), agentImage("2.0")))
		until(t, 60*time.Second, "the agent's Deployment has the image of the bundle", func() (bool, string) {
			got := deployed(t, r).Spec.Template.Spec.Containers[0].Image
			return got == agentImage("2.0"), got
		})
	})
	checkNoDeniedRequests(t, f.Publisher().Log())
	checkNoDeniedRequests(t, r.Agent().Log())
	t.Run("module is refused until its account has the required rights", func(t *testing.T) {
		must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
			spec.Modules = append(spec.Modules, managed("scaler"))
		}))
		untilRefused(t, r, "scaler", "nothing was applied", "system:serviceaccount:kyma-system:modules may not")
		grant(t, r, "modules", "system:serviceaccount:kyma-system:modules",
			writing("", "configmaps", "serviceaccounts"), writing("apps", "deployments"),
			writing("scheduling.k8s.io", "priorityclasses"),
			writing("apiextensions.k8s.io", "customresourcedefinitions"),
			writing(rbacv1.GroupName, "clusterroles", "clusterrolebindings"),
			writing("sample.kyma-pull.dev", "scalers", "scalers/status"))
		must(t, r.UntilState(ctx, "scaler", "1.7.0", v1beta2.StateReady))
	})
	t.Run("removed modules are uninstalled", func(t *testing.T) {
		must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) { spec.Modules = nil }))
		must(t, r.UntilGone(ctx, "scaler"))
		must(t, r.UntilGone(ctx, "mailer"))
	})
	agent := clientFor(t, r.AgentKubeconfig())
	refused(t, map[string]error{
		"grant permissions": agent.Create(ctx,
			emptyObject("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", "mine")),
		"delete a CRD": agent.Delete(ctx,
			emptyObject("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "other.example.org")),
		"read a Secret in another namespace": agent.Get(ctx, client.ObjectKey{Namespace: "default", Name: "mine"},
			emptyObject("v1", "Secret", "", "")),
		"create a token of its ServiceAccount": agent.SubResource("token").
			Create(ctx,
				&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "kyma-system", Name: "skr-agent"}},
				&authenticationv1.TokenRequest{}),
		"delete its namespace": agent.Delete(ctx, emptyObject("v1", "Namespace", "", "kyma-system")),
	})
}
