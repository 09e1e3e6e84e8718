package install

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
)

// failingAPI is an API server in which every object exists. It returns the error unread for reads and the error refused
// for writes.
type failingAPI struct {
	client.Client
	unread, refused error
	writes          int
}

func (f *failingAPI) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return f.unread
}

func (f *failingAPI) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	f.writes++
	return f.refused
}

func TestTemporaryErrorStopsFurtherInterceptorWrites(t *testing.T) {
	webhook := &unstructured.Unstructured{}
	webhook.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"))
	webhook.SetName("policy")
	settings := &unstructured.Unstructured{}
	settings.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
	plan := planning.Plan{}
	plan.Stages[2] = []*unstructured.Unstructured{webhook, settings, webhook}
	busy := apierrors.NewTooManyRequestsError("x")
	denied := apierrors.NewForbidden(schema.GroupResource{}, "policy", errors.New("no"))
	for name, c := range map[string]struct {
		unread, refused error
		want            error
		writes          int
	}{
		"all interceptors applied":   {writes: 2},
		"temporary error from read":  {unread: busy, want: busy},
		"temporary error from write": {refused: busy, want: busy, writes: 1},
		"read forbidden":             {unread: denied},
		"write forbidden":            {refused: denied, writes: 2},
	} {
		t.Run(name, func(t *testing.T) {
			api := &failingAPI{unread: c.unread, refused: c.refused}
			err := applyInterceptors(t.Context(), &account.Account{Client: api}, plan)
			require.Equal(t, c.want, err)
			require.Equal(t, c.writes, api.writes)
		})
	}
}
