package secrets

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/hack/lender"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/metadata"
)

const value = "hunter2-and-more"

func login() bundle.RuntimeSecret {
	return bundle.RuntimeSecret{
		Namespace: "default",
		Name:      "login",
		Labels:    map[string]string{"app": "keda"},
		Data:      map[string][]byte{"password": []byte(value)},
	}
}

// written returns the Secret login as the agent writes it, with an additional change.
func written(change func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       "default",
			Name:            "login",
			ResourceVersion: "7",
			Labels:          map[string]string{"app": "keda", v1beta2.LabelSealed: "true", "theirs": "1"},
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: metadata.DefaultOwner, FieldsV1: metav1.NewFieldsV1(
					`{"f:metadata":{"f:labels":{".":{},"f:app":{},"f:dropped":{},"f:kyma-pull.dev/sealed":{}}}}`)},
				{Manager: "kubectl-label", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:theirs":{}}}}`)},
			},
		},
		Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"password": []byte(value)},
	}
	if change != nil {
		change(s)
	}
	return s
}

func TestSecretChangeDependsOnOwnerAndContent(t *testing.T) {
	for name, c := range map[string]struct {
		have *corev1.Secret
		want string
	}{
		"Secret does not exist": {nil, actionCreate},
		"Secret is unchanged":   {written(nil), actionNone},
		"value changed": {
			written(func(s *corev1.Secret) { s.Data["password"] = nil }), actionUpdate,
		},
		"value added": {
			written(func(s *corev1.Secret) { s.Data["more"] = nil }), actionUpdate,
		},
		"label changed": {
			written(func(s *corev1.Secret) { s.Labels["app"] = "" }), actionUpdate,
		},
		"type differs": {
			written(func(s *corev1.Secret) { s.Type = corev1.SecretTypeTLS }), actionReplace,
		},
		"Secret is immutable": {
			written(func(s *corev1.Secret) { s.Immutable = new(true) }), actionNone,
		},
		"Secret is immutable and value changed": {
			written(func(s *corev1.Secret) { s.Immutable, s.Data = new(true), nil }), actionReplace,
		},
		"Secret is immutable and label changed": {
			written(func(s *corev1.Secret) { s.Immutable, s.Labels["app"] = new(true), "" }), actionUpdate,
		},
		"label dropped in the control plane": {
			written(func(s *corev1.Secret) { s.Labels["dropped"] = "1" }), actionUpdate,
		},
		"Secret is immutable and label dropped": {
			written(func(s *corev1.Secret) { s.Immutable, s.Labels["dropped"] = new(true), "1" }), actionUpdate,
		},
		"agent's label removed": {
			written(func(s *corev1.Secret) { delete(s.Labels, v1beta2.LabelSealed) }), actionUpdate,
		},
		"all labels removed": {
			written(func(s *corev1.Secret) { s.Labels = nil }), actionUpdate,
		},
		"Secret is immutable and agent's label removed": {
			written(func(s *corev1.Secret) { delete(s.Labels, v1beta2.LabelSealed); s.Immutable = new(true) }), actionUpdate,
		},
		"labels and value removed, UID known": {
			written(func(s *corev1.Secret) { s.Labels, s.Data, s.UID = nil, nil, "known" }), actionUpdate,
		},
		"labels and value removed, UID unknown": {
			written(func(s *corev1.Secret) { s.Labels, s.Data, s.UID = nil, nil, "other" }), "",
		},
		"Secret of another owner": {
			written(func(s *corev1.Secret) { delete(s.Labels, v1beta2.LabelSealed); s.Data["password"] = nil }), "",
		},
		"Secret of another owner with another type": {
			written(func(s *corev1.Secret) { delete(s.Labels, v1beta2.LabelSealed); s.Type = corev1.SecretTypeTLS }),
			"",
		},
	} {
		change, err := decide(login(), c.have, "known")
		if (err != nil) != (c.want == "") || change.Action != c.want {
			t.Errorf("%s: got change %q and error %v, want %q", name, change.Action, err, c.want)
		}
		if change.Action == actionNone || err != nil {
			continue
		}
		s := change.Secret
		if string(s.Data["password"]) != value || len(s.Data) != 1 || s.Labels["app"] != "keda" ||
			s.Labels[v1beta2.LabelSealed] != "true" || s.Labels["dropped"] != "" ||
			s.Type != corev1.SecretTypeOpaque {
			t.Errorf("%s: got labels %v, data %v and type %s, want the sealed Secret", name, s.Labels, s.Data, s.Type)
		}
		if change.Action == actionUpdate && (c.have.Labels != nil && s.Labels["theirs"] != "1" || s.ResourceVersion != "7") {
			t.Errorf("%s: got metadata %v, want the labels of others to stay", name, s.ObjectMeta)
		}
	}
}

func TestErrorsOmitMessagesOfAPIServer(t *testing.T) {
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "login",
		errors.New("admission webhook: no "+value))
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"forbidden":               {denied, "the API server responded with Forbidden"},
		"wrapped Forbidden error": {fmt.Errorf("write: %w", denied), "the API server responded with Forbidden"},
		"connection refused":      {errors.New("connection refused"), "the API server did not respond"},
		"error without a message": {withoutMessage(denied), "the API server responded with Forbidden"},
	} {
		if got := withoutMessage(c.err); got.Error() != c.want {
			t.Errorf("%s: got error %v, want %s", name, got, c.want)
		}
	}
	if withoutMessage(nil) != nil {
		t.Error("withoutMessage(nil) must be nil")
	}
	many := make([]error, 100)
	for i := range many {
		many[i] = fmt.Errorf("secret kyma-system/number-%d: the API server responded with Forbidden", i)
	}
	if text := joinMessages(many); len(text) > bundle.MaxMessageBytes ||
		!strings.HasPrefix(text, "secret kyma-system/number-0") {
		t.Errorf("got %d bytes %q, want the first problems in at most %d bytes", len(text), text,
			bundle.MaxMessageBytes)
	}
}

func TestAgentReconcilesSealedSecrets(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("needs a kube-apiserver: KUBEBUILDER_ASSETS is not set")
	}
	server, err := lender.Start(t.Context(), &envtest.Environment{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	api, err := client.New(server.Config, client.Options{Scheme: scheme.Scheme})
	require.NoError(t, err)
	ctx := t.Context()
	identity, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	keeper := &Reconciler{Client: api, Runtime: "one", Identity: identity}
	seal := func(secrets bundle.Secrets) *bundle.Sealed {
		t.Helper()
		sealed, err := secrets.Seal("one", keeper.Recipient())
		require.NoError(t, err)
		return sealed
	}
	there := func(namespace, name string) *corev1.Secret {
		t.Helper()
		secret := &corev1.Secret{}
		if err := api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret); err != nil {
			require.True(t, apierrors.IsNotFound(err), "%v", err)
			return nil
		}
		return secret
	}

	require.Nil(t, keeper.Reconcile(ctx, nil, true))
	elsewhere, theirs := login(), login()
	elsewhere.Namespace, theirs.Name, theirs.Data = "later", "theirs", map[string][]byte{"password": []byte("another")}
	require.NoError(
		t,
		api.Create(
			ctx,
			&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "theirs"},
				StringData: map[string]string{"password": "tenant"},
			},
		),
	)
	all := seal(bundle.Secrets{Secrets: []bundle.RuntimeSecret{elsewhere, theirs, login()}})
	reported := keeper.Reconcile(ctx, all, false)
	require.Equal(t, all.Revision, reported.Revision)
	require.Equal(
		t,
		"secret default/theirs: the existing Secret belongs to another owner; delete it, or choose another name in "+
			"the control plane; "+
			"secret later/login: namespace later does not exist yet",
		reported.Trouble,
	)
	require.Equal(t, value, string(there("default", "login").Data["password"]))
	require.Equal(t, "tenant", string(there("default", "theirs").Data["password"]))

	// After the obstacles are removed, the next call writes the other Secrets.
	require.NoError(t, api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "later"}}))
	require.NoError(t, api.Delete(ctx, there("default", "theirs")))
	require.Empty(t, keeper.Reconcile(ctx, all, false).Trouble)
	require.Equal(t, value, string(there("later", "login").Data["password"]))

	// The agent checks unchanged Secrets only on request, and does not write them.
	written := there("default", "login")
	require.Empty(t, keeper.Reconcile(ctx, all, true).Trouble)
	require.Equal(t, written.ResourceVersion, there("default", "login").ResourceVersion)
	require.NoError(t, api.Delete(ctx, written))
	keeper.Reconcile(ctx, all, false)
	require.Nil(t, there("default", "login"))
	keeper.Reconcile(ctx, all, true)
	require.NotNil(t, there("default", "login"))

	// The agent corrects a changed value even if the label was removed.
	stripped := there("default", "login")
	stripped.Labels, stripped.Data = nil, map[string][]byte{"password": []byte("tenant")}
	require.NoError(t, api.Update(ctx, stripped))
	require.Empty(t, keeper.Reconcile(ctx, all, true).Trouble)
	require.Equal(t, value, string(there("default", "login").Data["password"]))
	require.Equal(t, v1beta2.True, there("default", "login").Labels[v1beta2.LabelSealed])

	// The agent deletes and recreates a Secret with a different type.
	other := login()
	other.Type, other.Data, other.Revision = corev1.SecretTypeBasicAuth, map[string][]byte{
		"username": []byte("u"),
		"password": []byte("p"),
	}, "2"
	require.Empty(t, keeper.Reconcile(ctx, seal(bundle.Secrets{Secrets: []bundle.RuntimeSecret{other}}), false).Trouble)
	require.Equal(t, corev1.SecretTypeBasicAuth, there("default", "login").Type)

	// The agent deletes a listed Secret only if it wrote the Secret.
	require.NoError(t, api.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "tenants"},
	}))
	gone := seal(bundle.Secrets{Removals: []string{"default/login", "default/tenants", "default/never-there"}})
	require.Empty(t, keeper.Reconcile(ctx, gone, false).Trouble)
	require.Nil(t, there("default", "login"))
	require.NotNil(t, there("default", "tenants"))
	require.NotNil(t, there("later", "login"))

	// The agent must not write Secrets that are encrypted for another agent or runtime.
	stranger, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	foreign, err := bundle.Secrets{Removals: []string{"later/login"}}.Seal("one", stranger.Recipient().String())
	require.NoError(t, err)
	require.Contains(t, keeper.Reconcile(ctx, foreign, false).Trouble, "another agent's key")
	mistaken, err := bundle.Secrets{Removals: []string{"later/login"}}.Seal("two", keeper.Recipient())
	require.NoError(t, err)
	require.Contains(t, keeper.Reconcile(ctx, mistaken, false).Trouble, "another runtime")
	require.NoError(t, keeper.Clear(ctx, foreign))
	require.NoError(t, keeper.Clear(ctx, nil))
	require.NotNil(t, there("later", "login"))

	require.NoError(t, keeper.Clear(ctx, all))
	require.Nil(t, there("later", "login"))
	require.Nil(t, there("default", "theirs"))
	require.NotNil(t, there("default", "tenants"))
}
