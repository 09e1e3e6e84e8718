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

// SignatureKeys updates the verifier's keys from Secrets in the control plane, and its policy from a file. Without a
// verifier, it does nothing.
type SignatureKeys struct {
	Verifier   *signature.Verifier
	Components *component.Reader
	Reader     client.Reader
	Namespace  string
	// PolicyFile is checked every Interval, together with its key files.
	PolicyFile string
	Interval   time.Duration

	changed func(context.Context) error
	problem string // the last logged problem
	behind  bool   // the policy changed, but the Kymas are not yet queued
}

// NeedLeaderElection returns true, because only one publisher uses the policy.
func (s *SignatureKeys) NeedLeaderElection() bool { return true }

// Start reloads the policy after changes, until the context ends. An invalid policy does not replace the previous one.
func (s *SignatureKeys) Start(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx).WithName("signatures")
	tick := time.NewTicker(max(s.Interval, time.Second))
	defer tick.Stop()
	lastError := ""
	for {
		err := s.follow(ctx, log)
		if text := fmt.Sprint(err); err != nil && text != lastError && ctx.Err() == nil {
			log.Error(err, "failed to load the signature policy, continuing with the previous one")
			lastError = text
		} else if err == nil {
			lastError = ""
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// A changed policy applies to all components and Kymas again.
func (s *SignatureKeys) follow(ctx context.Context, log logr.Logger) error {
	policy, err := signature.ReadPolicy(s.PolicyFile)
	if err != nil {
		return err
	}
	if s.Verifier.SetPolicy(policy) {
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
		panic(err) // the label is a valid constant
	}
	return labels.NewSelector().Add(*labeled)
}

// Reconcile reads all keys and verifies all components and Kymas again.
func (s *SignatureKeys) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	var secrets corev1.SecretList
	if err := s.Reader.List(ctx, &secrets, client.InNamespace(s.Namespace),
		client.MatchingLabelsSelector{Selector: SignatureSecrets()}); err != nil {
		return ctrl.Result{}, fmt.Errorf("list Secrets with signature keys: %w", err)
	}
	problem := ""
	if err := s.Verifier.SetSecrets(secrets.Items); err != nil {
		problem = err.Error()
		if problem != s.problem {
			ctrl.LoggerFrom(ctx).Error(err, "failed to read some signature keys, continuing with the others")
		}
	}
	s.problem = problem
	s.Components.Recheck()
	return ctrl.Result{}, s.changed(ctx)
}
