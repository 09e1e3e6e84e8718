package control

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/component"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/signature"
)

// SignatureKeys keeps the verifier's keys those of the Secrets in the control plane. Without a verifier there is nothing to keep.
type SignatureKeys struct {
	Verifier   *signature.Verifier
	Components *component.Reader
	Reader     client.Reader
	Namespace  string

	changed func(context.Context) error
	problem string // told last
}

// SignatureSecrets selects the Secrets with public keys.
func SignatureSecrets() labels.Selector {
	labeled, err := labels.NewRequirement(v1beta2.LabelSignature, selection.Exists, nil)
	if err != nil {
		panic(err) // a constant
	}
	return labels.NewSelector().Add(*labeled)
}

// Reconcile reads all keys; the request's name means nothing. Components are verified again, and with them all Kymas.
func (s *SignatureKeys) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	var secrets corev1.SecretList
	if err := s.Reader.List(ctx, &secrets, client.InNamespace(s.Namespace), client.MatchingLabelsSelector{Selector: SignatureSecrets()}); err != nil {
		return ctrl.Result{}, fmt.Errorf("list Secrets with keys of signatures: %w", err)
	}
	problem := ""
	if err := s.Verifier.TakeSecrets(secrets.Items); err != nil {
		problem = err.Error()
		if problem != s.problem {
			ctrl.LoggerFrom(ctx).Error(err, "failed to read some public keys of signatures, continuing with the others")
		}
	}
	s.problem = problem
	s.Components.Recheck()
	return ctrl.Result{}, s.changed(ctx)
}
