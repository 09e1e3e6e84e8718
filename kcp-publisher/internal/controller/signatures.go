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

// SignatureOptions configures signature verification. If Verifier is nil, the publisher does not verify signatures.
type SignatureOptions struct {
	Verifier *signature.Verifier
	// Namespace contains the Secrets with public keys.
	Namespace string
	// PolicyFile is read every Interval, together with the key files that it references.
	PolicyFile string
	Interval   time.Duration
}

// signatureKeys updates the signature verifier's keys and policy. The keys come from Secrets in the control plane and
// the policy from a file.
type signatureKeys struct {
	SignatureOptions
	components *component.Reader
	reader     client.Reader
	onChange   func(context.Context) error
	problem    string // the last logged problem
	mustQueue  bool   // the policy has changed, but the Kymas are not queued yet
}

// NeedLeaderElection returns true, because only the process that publishes bundles uses the policy.
func (s *signatureKeys) NeedLeaderElection() bool { return true }

// Start reads the policy file regularly until the context ends. If the file is invalid, the previous policy stays in
// effect.
func (s *signatureKeys) Start(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx).WithName("signatures")
	tick := time.NewTicker(max(s.Interval, time.Second))
	defer tick.Stop()
	lastError := ""
	for {
		err := s.reloadPolicy(ctx, log)
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

// reloadPolicy reads the policy file. If the policy has changed, it queues all Kymas and makes the publisher verify all
// components again.
func (s *signatureKeys) reloadPolicy(ctx context.Context, log logr.Logger) error {
	policy, err := signature.ReadPolicy(s.PolicyFile)
	if err != nil {
		return err
	}
	if s.Verifier.SetPolicy(policy) {
		log.Info("loaded a changed signature policy", "file", s.PolicyFile)
		s.components.RequestRecheck()
		s.mustQueue = true
	}
	if s.mustQueue {
		if err := s.onChange(ctx); err != nil {
			return err
		}
	}
	s.mustQueue = false
	return nil
}

// SignatureSecrets returns the label selector of the Secrets that contain public keys for signatures.
func SignatureSecrets() labels.Selector {
	labeled, err := labels.NewRequirement(v1beta2.LabelSignature, selection.Exists, nil)
	if err != nil {
		panic(err) // cannot happen: the label is a valid constant
	}
	return labels.NewSelector().Add(*labeled)
}

// Reconcile reads the keys from all Secrets. All components are then verified again, and all Kymas are queued.
func (s *signatureKeys) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	var secrets corev1.SecretList
	if err := s.reader.List(ctx, &secrets, client.InNamespace(s.Namespace),
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
	s.components.RequestRecheck()
	return ctrl.Result{}, s.onChange(ctx)
}
