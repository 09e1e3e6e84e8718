package controller

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/lender"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/permission"
)

type users struct {
	t      *testing.T
	config *rest.Config
	scheme *runtime.Scheme
	admin  client.Client
}

func startUsers(t *testing.T) *users {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1beta2.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	server, err := lender.Start(t.Context(), &envtest.Environment{
		CRDDirectoryPaths: []string{
			filepath.Join("..", "..", "..", "charts", "kcp-publisher", "files", "crds"),
		},
		ErrorIfCRDPathMissing: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	u := &users{t: t, config: server.Config, scheme: scheme}
	u.admin = u.as("")
	for _, namespace := range []string{"kcp-system", "elsewhere"} {
		u.must(u.admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	}
	return u
}

func (u *users) must(err error) {
	u.t.Helper()
	if err != nil {
		u.t.Fatal(err)
	}
}

func (u *users) as(name string) client.Client {
	u.t.Helper()
	config := rest.CopyConfig(u.config)
	config.Impersonate.UserName = name
	if name != "" && !strings.HasPrefix(name, "system:") {
		config.Impersonate.Groups = []string{"system:authenticated"}
	}
	api, err := client.New(config, client.Options{Scheme: u.scheme})
	u.must(err)
	return api
}

func (u *users) grant(user string, verbs ...string) client.Client {
	u.t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: user},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{v1beta2.Group}, Resources: []string{"kymas"}, Verbs: verbs}}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: role.ObjectMeta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}
	u.must(u.admin.Create(u.t.Context(), role))
	u.must(u.admin.Create(u.t.Context(), binding))
	return u.as(user)
}

func (u *users) apply(path ...string) {
	u.t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{"..", "..", "..", "charts", "kcp-publisher"}, path...)...))
	u.must(err)
	for _, document := range strings.Split(string(data), "\n---\n") {
		object := &unstructured.Unstructured{}
		u.must(yaml.Unmarshal([]byte(document), &object.Object))
		u.must(u.admin.Create(u.t.Context(), object))
	}
}

// eventually repeats an attempt, because new roles and policies take effect with a delay.
func (u *users) eventually(what string, attempt func() error) {
	u.t.Helper()
	var err error
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if err = attempt(); err == nil {
			return
		}
	}
	u.t.Fatalf("%s: %v", what, err)
}

func kymaIn(namespace, name string) *v1beta2.Kyma {
	return &v1beta2.Kyma{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1beta2.KymaSpec{Channel: "regular"},
	}
}

// with returns a copy of the Kyma with this value of the setting. An empty value removes the setting.
func with(kyma *v1beta2.Kyma, s permission.Setting, value string) *v1beta2.Kyma {
	kyma = kyma.DeepCopy()
	values := kyma.Annotations
	if s.Place == permission.Label {
		values = kyma.Labels
	}
	if values == nil {
		values = map[string]string{}
	}
	switch {
	case s.Place == permission.Field:
		kyma.Spec.SkipMaintenanceWindows = value != ""
		return kyma
	case value == "":
		delete(values, s.Key)
	default:
		values[s.Key] = value
	}
	if s.Place == permission.Label {
		kyma.Labels = values
	} else {
		kyma.Annotations = values
	}
	return kyma
}

// The test adds, changes and removes each setting with and without permission.
func TestKymaSettingsRequireTheirRBACVerb(t *testing.T) {
	u, ctx := startUsers(t), t.Context()
	u.apply("policy", "settings.yaml")
	author := u.grant("author", "get", "list", "create", "update", "patch", "delete")
	kyma := kymaIn("kcp-system", "berlin")
	u.must(u.admin.Create(ctx, kyma))
	u.eventually("the policy is in force", func() error {
		if err := author.Update(ctx, with(kyma, permission.Settings[0], "x"),
			client.DryRunAll); !apierrors.IsForbidden(err) {
			return fmt.Errorf("got %w", errors.Join(errors.New("not refused"), err))
		}
		return nil
	})
	for i, s := range permission.Settings {
		t.Run(s.Key, func(t *testing.T) {
			operator := u.grant(fmt.Sprintf("operator-%d", i), "get", "create", "update", "patch", s.Verb)
			refused := func(what string, err error) {
				t.Helper()
				if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), s.Key) ||
					!strings.Contains(err.Error(), "needs the verb "+s.Verb) {
					t.Errorf("%s: got error %v, want a refusal that names the verb", what, err)
				}
			}
			created := with(kymaIn("kcp-system", fmt.Sprintf("new-%d", i)), s, "true")
			refused("the author creates a Kyma with the setting", author.Create(ctx, created.DeepCopy()))
			u.eventually("the operator creates a Kyma with the setting",
				func() error { return operator.Create(ctx, created) })
			refused("the author removes the setting", author.Update(ctx, with(created, s, "")))
			if s.Place != permission.Field {
				refused("the author changes the setting", author.Update(ctx, with(created, s, "other")))
				merge := client.MergeFrom(created)
				refused("the author patches the setting", author.Patch(ctx, with(created, s, "other"), merge))
			}
			changed := created.DeepCopy()
			changed.Spec.Modules = []v1beta2.Module{{Name: "keda", Managed: true}}
			if err := author.Update(ctx, changed); err != nil {
				t.Errorf("the author cannot request a module: %v", err)
			}
			if err := operator.Update(ctx, with(changed, s, "")); err != nil {
				t.Errorf("the operator cannot remove the setting: %v", err)
			}
			without := kymaIn("kcp-system", created.Name)
			u.must(u.admin.Get(ctx, client.ObjectKeyFromObject(without), without))
			refused("the author adds the setting", author.Update(ctx, with(without, s, "true")))
		})
	}
	foreign := with(kymaIn("elsewhere", "berlin"), permission.Settings[0], "x")
	u.must(u.admin.Create(ctx, foreign))
	probing := kymaIn("kcp-system", "berlin")
	err := u.admin.Patch(ctx, probing, client.RawPatch("application/merge-patch+json", permission.Probe()),
		client.DryRunAll)
	if !permission.IsEnforced(err) {
		t.Errorf("the probe of an admin does not find the policy: %v", err)
	}
}

func TestSettingsAreIgnoredWithoutThePolicy(t *testing.T) {
	u, ctx := startUsers(t), t.Context()
	kyma := kymaIn("kcp-system", "berlin")
	kyma.Annotations = map[string]string{
		v1beta2.AnnotationAgentImage: evilImage,
		v1beta2.AnnotationMovedAway:  v1beta2.True,
	}
	kyma.Spec.SkipMaintenanceWindows = true
	u.must(u.admin.Create(ctx, kyma))
	now, recorder := time.Now(), events.NewFakeRecorder(10)
	restricted := restrictSettings(u.admin, recorder, func() time.Time { return now })
	read := func() (*v1beta2.Kyma, error) {
		got := &v1beta2.Kyma{}
		return got, restricted.Get(ctx, client.ObjectKeyFromObject(kyma), got)
	}

	if _, err := read(); !errors.Is(err, errPolicyUnknown) {
		t.Fatalf("directly after the start, a missing policy must be an error: got %v", err)
	}
	now = now.Add(policyDelay)
	for range 2 {
		got, err := read()
		u.must(err)
		if _, is := got.Annotations[v1beta2.AnnotationAgentImage]; is || got.Spec.SkipMaintenanceWindows {
			t.Errorf("without the policy: got annotations %s and skipMaintenanceWindows %t, want neither",
				got.Annotations, got.Spec.SkipMaintenanceWindows)
		}
		if got.Annotations[v1beta2.AnnotationMovedAway] != v1beta2.True {
			t.Error("a setting that needs no permission is ignored")
		}
	}
	if n := len(recorder.Events); n != 1 {
		t.Fatalf("got %d Events, want one", n)
	}
	if event := <-recorder.Events; !strings.Contains(event, v1beta2.ReasonSettingsIgnored) ||
		!strings.Contains(event, v1beta2.AnnotationAgentImage) {
		t.Errorf("got Event %q, want one that names the ignored setting", event)
	}

	patched, err := read()
	u.must(err)
	before := patched.DeepCopy()
	patched.Finalizers = []string{v1beta2.FinalizerKyma}
	u.must(restricted.Patch(ctx, patched, client.MergeFrom(before)))
	if _, is := patched.Annotations[v1beta2.AnnotationAgentImage]; is {
		t.Error("the response to a patch contains the setting")
	}

	u.apply("policy", "settings.yaml")
	u.eventually("the settings are honored with the policy", func() error {
		now = now.Add(unenforcedInterval)
		if got, err := read(); err != nil || got.Annotations[v1beta2.AnnotationAgentImage] != evilImage ||
			!got.Spec.SkipMaintenanceWindows {
			return fmt.Errorf("annotations %s, %w", got.Annotations, errors.Join(errors.New("ignored"), err))
		}
		return nil
	})
	now = now.Add(enforcedInterval)
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if enforced, err := restricted.isEnforced(canceled, kyma); err != nil || !enforced {
		t.Errorf("after a failed probe: got enforced %t and error %v, want true", enforced, err)
	}
	fresh := restrictSettings(u.admin, recorder, func() time.Time { return now })
	gone := kymaIn("kcp-system", "gone")
	gone.Annotations = map[string]string{v1beta2.AnnotationAgentImage: evilImage}
	if _, err := fresh.isEnforced(ctx, gone); !errors.Is(err, errPolicyUnknown) {
		t.Errorf("a probe on a deleted Kyma returned %v, want errPolicyUnknown", err)
	}
	var list v1beta2.KymaList
	if err := fresh.List(ctx, &list); err != nil || len(list.Items) != 1 ||
		list.Items[0].Annotations[v1beta2.AnnotationAgentImage] != evilImage {
		t.Errorf("list after a failed probe: got error %v and %d Kymas, want one Kyma with its setting",
			err, len(list.Items))
	}
	stored := &v1beta2.Kyma{}
	u.must(u.admin.Get(ctx, client.ObjectKeyFromObject(kyma), stored))
	if stored.Annotations[v1beta2.AnnotationPermissionProbe] != "" {
		t.Error("a probe was stored")
	}
}
