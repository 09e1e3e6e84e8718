package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/component"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/signature"
)

// SignatureKeys keeps the verifier's keys those of the Secrets in the control plane. Without a verifier there is
// nothing to keep.
type SignatureKeys struct {
	Verifier   *signature.Verifier
	Components *component.Reader
	Reader     client.Reader
	Namespace  string
	// PolicyFile is looked at every Interval, with the key files that it names.
	PolicyFile string
	Interval   time.Duration

	changed func(context.Context) error
	problem string // told last
	behind  bool   // Kymas are still to be looked at by a changed policy
}

// NeedLeaderElection says that one publisher at a time looks at the policy: no other uses it.
func (s *SignatureKeys) NeedLeaderElection() bool { return true }

// Start loads the policy anew when its files change, until the context ends. One that means nothing leaves the one
// before in force.
func (s *SignatureKeys) Start(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx).WithName("signatures")
	tick := time.NewTicker(max(s.Interval, time.Second))
	defer tick.Stop()
	told := ""
	for {
		err := s.follow(ctx, log)
		if text := fmt.Sprint(err); err != nil && text != told && ctx.Err() == nil {
			log.Error(err, "failed to load the signature policy, continuing with the previous one")
			told = text
		} else if err == nil {
			told = ""
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// follow loads the policy if it changed. Components are verified again then, and with them all Kymas.
func (s *SignatureKeys) follow(ctx context.Context, log logr.Logger) error {
	policy, err := signature.ReadPolicy(s.PolicyFile)
	if err != nil {
		return err
	}
	if s.Verifier.TakePolicy(policy) {
		log.Info("loaded a changed signature policy", "file", s.PolicyFile)
		s.Components.Recheck()
		s.behind = true
	}
	if s.behind {
		if err := s.changed(ctx); err != nil {
			return err
		}
	}
	s.behind = false
	return nil
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
