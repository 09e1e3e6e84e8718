package signature

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/component"
)

// Refusal means that a component version must not be used. Any other error means that the check could not run.
type Refusal struct{ error }

// Unwrap returns the cause and component.ErrRefused.
func (r Refusal) Unwrap() []error { return []error{r.error, component.ErrRefused} }

// Verifier checks component versions against a policy. It is safe for concurrent use.
type Verifier struct {
	now func() time.Time

	mu      sync.Mutex // guards the fields below
	policy  Policy
	secrets map[string]ocm.Trust // by signature name
}

// NewVerifier returns a verifier for a policy. The function now returns the current time.
func NewVerifier(policy Policy, now func() time.Time) *Verifier {
	return &Verifier{policy: policy, now: now, secrets: map[string]ocm.Trust{}}
}

// SetSecrets replaces the keys from Secrets with the label operator.kyma-project.io/signature. The label's value is the
// signature's name, and each value of the Secret is a key or certificate. The error lists invalid values.
func (v *Verifier) SetSecrets(secrets []corev1.Secret) error {
	trusted := map[string]ocm.Trust{}
	var problems []error
	for _, secret := range secrets {
		name, labeled := secret.Labels[v1beta2.LabelSignature]
		if !labeled {
			continue
		}
		for key, data := range secret.Data {
			trust, err := ocm.ParseTrust(data)
			if err != nil {
				problems = append(problems,
					fmt.Errorf("Secret %s/%s data[%s]: %w", secret.Namespace, secret.Name, key, err))
				continue
			}
			trusted[name] = joinTrust(trusted[name], trust)
		}
	}
	v.mu.Lock()
	v.secrets = trusted
	v.mu.Unlock()
	slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(problems...)
}

// SetPolicy replaces the policy and reports whether it changed.
func (v *Verifier) SetPolicy(policy Policy) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	changed := v.policy.digest != policy.digest
	v.policy = policy
	return changed
}

func (v *Verifier) ruleFor(component string) (rule, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.policy.ruleFor(component)
}

func (v *Verifier) trustFor(r rule, name string) ocm.Trust {
	v.mu.Lock()
	defer v.mu.Unlock()
	trust := joinTrust(r.trust, v.secrets[name])
	trust.Subject = r.subject
	if len(r.names) == 0 && r.subject == "" {
		trust.Roots = nil // do not accept certificates, because the signer could choose the subject
	}
	return trust
}

// RequiresSignature reports whether the component must be signed.
func (v *Verifier) RequiresSignature(component string) bool {
	r, covered := v.ruleFor(component)
	return !covered || r.required
}

// Check returns nil if the component version can be used. A *Refusal means that it must not be used. Any other error
// means that the check could not run.
func (v *Verifier) Check(ctx context.Context, reader *component.Reader, c component.Component) error {
	name := c.Descriptor.Name
	r, covered := v.ruleFor(name)
	switch {
	case !covered:
		return Refusal{
			fmt.Errorf("component %s:%s: no rule of the signature policy matches the component: add one", name,
				c.Descriptor.Version),
		}
	case !r.required:
		return nil
	}
	// Check the signature first, because an unsigned descriptor's references must never be read.
	if err := v.checkSigned(c.Descriptor, r); err != nil {
		return Refusal{fmt.Errorf("component %s:%s: %w", name, c.Descriptor.Version, err)}
	}
	all, err := reader.Closure(ctx, c)
	if err != nil {
		return err
	}
	if err := checkComplete(all); err != nil {
		return Refusal{err}
	}
	return nil
}

// checkSigned returns an error if the rule does not accept any of the descriptor's signatures.
func (v *Verifier) checkSigned(d ocm.Descriptor, r rule) error {
	var problems []string
	for _, s := range d.Signatures {
		if !r.acceptsName(s.Name) {
			continue
		}
		trust := v.trustFor(r, s.Name)
		if len(trust.Keys)+len(trust.Roots) == 0 {
			problems = append(problems,
				fmt.Sprintf(
					"signature %q: no key is configured: add one to the rule for %s or in a Secret labeled %s=%s",
					s.Name, r.text, v1beta2.LabelSignature, s.Name))
			continue
		}
		err := d.CheckSignature(s, trust, v.now())
		if err == nil {
			return nil
		}
		problems = append(problems, err.Error())
	}
	wanted := "a signature"
	if len(r.names) > 0 {
		wanted = "signature " + strings.Join(r.names, " or ")
	}
	if len(problems) == 0 {
		has := make([]string, len(d.Signatures))
		for i, s := range d.Signatures {
			has[i] = s.Name
		}
		if len(has) == 0 {
			return fmt.Errorf("not signed: the policy's rule for %s requires %s", r.text, wanted)
		}
		return fmt.Errorf("only signed by %s: the policy's rule for %s requires %s", strings.Join(has, ", "), r.text,
			wanted)
	}
	return errors.New(strings.Join(problems, "; "))
}

// checkComplete returns an error if a reference, installed content or an image in the components lacks a digest. A
// signature covers only digests, not locations.
func checkComplete(all []component.Component) error {
	known := make(map[string]ocm.Descriptor, len(all))
	for _, c := range all {
		known[c.Descriptor.Name+":"+c.Descriptor.Version] = c.Descriptor
	}
	for i, c := range all {
		subject := "component " + c.Descriptor.Name + ":" + c.Descriptor.Version
		for _, reference := range c.Descriptor.References {
			if err := checkReference(reference, known); err != nil {
				return fmt.Errorf("%s: reference %q: %w", subject, reference.Name, err)
			}
		}
		needed := slices.DeleteFunc(slices.Clone(c.Descriptor.Resources), func(r ocm.Resource) bool {
			return !r.IsImage()
		})
		if i == 0 {
			selection, err := bundle.Select(c.Descriptor)
			if err != nil {
				return err
			}
			needed = append(needed, selection.Needed()...)
		}
		for _, r := range needed {
			switch {
			case !r.Digest.IsCovered():
				return fmt.Errorf("%s: resource %q has no digest, so no signature covers its content", subject,
					r.Name)
			case r.IsImage() && !r.Digest.IsArtifactDigest():
				return fmt.Errorf(
					"%s: resource %q has the type of an image, but its digest was not computed from an image manifest: "+
						"sign it with ociArtifactDigest/v1", subject, r.Name)
			case r.IsImage() && r.Access.Kind() != ocm.AccessOCIArtifact && r.Access.Kind() != ocm.AccessRelativeOCI:
				return fmt.Errorf(
					"%s: resource %q is an image, but its access %s has no location: must be ociArtifact or "+
						"relativeOciReference", subject, r.Name, r.Access.Type)
			}
		}
	}
	return nil
}

func checkReference(reference ocm.Reference, known map[string]ocm.Descriptor) error {
	target, ok := known[reference.Component+":"+reference.Version]
	if !ok {
		return fmt.Errorf("component %s:%s was not read", reference.Component, reference.Version)
	}
	if !reference.Digest.IsCovered() {
		return errors.New("no digest, so no signature covers the reference")
	}
	actual, err := ocm.DigestOf(target, reference.Digest.NormalisationAlgorithm, reference.Digest.HashAlgorithm)
	if err != nil {
		return err
	}
	if !strings.EqualFold(actual, reference.Digest.Value) {
		return fmt.Errorf("component %s:%s has digest %s, the signed digest is %s", reference.Component,
			reference.Version, actual, reference.Digest.Value)
	}
	return nil
}
