// Package signature decides whether a component version has the signatures that an operator requires.
//
// It accepts a signature only if all covered digests match: for the component's descriptor, all referenced descriptors,
// and the content. Unsigned data never decides whether a signature is required.
package signature

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/bundle/strict"
)

const (
	policyKind     = "SignaturePolicy"
	maxPolicyBytes = 1 << 20
	maxKeyBytes    = 64 << 10
)

type policyDocument struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Rules      []ruleDocument `json:"rules"`
}

type ruleDocument struct {
	Components string   `json:"components"`
	Required   *bool    `json:"required"`
	Signatures []string `json:"signatures,omitempty"`
	Keys       []string `json:"keys,omitempty"`
	Subject    string   `json:"subject,omitempty"`
}

// Policy defines the components that must be signed and the accepted keys. The first matching rule applies.
type Policy struct {
	rules []rule
	// digest is the digest of the policy file and its key files.
	digest [sha256.Size]byte
}

type rule struct {
	text     string
	pattern  *regexp.Regexp
	required bool
	// names lists the accepted signature names. If it is empty, all names are accepted.
	names   []string
	trust   ocm.Trust // keys and certificates from the rule's key files
	subject string
}

// ReadPolicy reads a policy file and its key files. Paths in the policy can be relative to the policy file. Errors name
// the file and the field.
func ReadPolicy(file string) (Policy, error) {
	data, err := readBounded(file, maxPolicyBytes)
	if err != nil {
		return Policy{}, fmt.Errorf("signature policy: %w", err)
	}
	read := sha256.New()
	note := func(data []byte) {
		fmt.Fprintf(read, "%d\n", len(data))
		read.Write(data)
	}
	note(data)
	policy, err := decodePolicy(data, func(name string) ([]byte, error) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(file), name)
		}
		key, err := readBounded(name, maxKeyBytes)
		note(key)
		return key, err
	})
	if err != nil {
		return Policy{}, fmt.Errorf("signature policy %s: %w", file, err)
	}
	read.Sum(policy.digest[:0])
	return policy, nil
}

func readBounded(file string, limit int64) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%s is %d bytes, must be at most %d", file, info.Size(), limit)
	}
	return os.ReadFile(file)
}

func decodePolicy(data []byte, keys func(name string) ([]byte, error)) (Policy, error) {
	if err := strict.CheckYAML(data, strict.Limits{Documents: 1}); err != nil {
		return Policy{}, err
	}
	// Check the kind first, because decoding a file of a different kind into policyDocument would report only the first
	// unknown field.
	var head struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal(data, &head); err != nil {
		return Policy{}, err
	}
	if head.APIVersion != bundle.APIVersion || head.Kind != policyKind {
		return Policy{},
			fmt.Errorf("apiVersion is %q and kind is %q, must be apiVersion %s and kind %s", head.APIVersion, head.Kind,
				bundle.APIVersion, policyKind)
	}
	var document policyDocument
	if err := yaml.UnmarshalStrict(data, &document); err != nil {
		return Policy{}, err
	}
	if len(document.Rules) == 0 {
		return Policy{}, errors.New("rules must not be empty: omit the policy if no component must be signed")
	}
	var policy Policy
	for i, r := range document.Rules {
		compiled, err := r.compile(keys)
		if err != nil {
			return Policy{}, fmt.Errorf("rules[%d].%w", i, err)
		}
		policy.rules = append(policy.rules, compiled)
	}
	return policy, nil
}

var patternText = regexp.MustCompile(`^[-a-z0-9._/*]+$`)

func (r ruleDocument) compile(keys func(string) ([]byte, error)) (rule, error) {
	if !patternText.MatchString(r.Components) {
		return rule{},
			fmt.Errorf(
				"components: %q is not a component name or a pattern such as kyma-project.io/module/*", r.Components)
	}
	if r.Required == nil {
		return rule{}, errors.New("required must be true or false")
	}
	compiled := rule{
		text: r.Components, required: *r.Required, names: r.Signatures, subject: r.Subject,
		pattern: regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(r.Components), `\*`, ".*") + "$"),
	}
	if !compiled.required && (len(r.Signatures) > 0 || len(r.Keys) > 0 || r.Subject != "") {
		return rule{},
			errors.New("required is false, but signatures, keys or subject is set: remove these fields")
	}
	for i, name := range r.Keys {
		data, err := keys(name)
		if err != nil {
			return rule{}, fmt.Errorf("keys[%d]: %w", i, err)
		}
		trust, err := ocm.ParseTrust(data)
		if err != nil {
			return rule{}, fmt.Errorf("keys[%d]: %s: %w", i, name, err)
		}
		compiled.trust = joinTrust(compiled.trust, trust)
	}
	if len(compiled.trust.Roots) > 0 && len(r.Signatures) == 0 && r.Subject == "" {
		return rule{},
			errors.New(
				"subject is required for certificates if signatures is empty: otherwise, every certificate of the " +
					"authority would be accepted")
	}
	return compiled, nil
}

func (p Policy) ruleFor(component string) (rule, bool) {
	for _, r := range p.rules {
		if r.pattern.MatchString(component) {
			return r, true
		}
	}
	return rule{}, false
}

func (r rule) acceptsName(name string) bool {
	return len(r.names) == 0 || slices.Contains(r.names, name)
}

func joinTrust(a, b ocm.Trust) ocm.Trust {
	return ocm.Trust{Keys: slices.Concat(a.Keys, b.Keys), Roots: slices.Concat(a.Roots, b.Roots), Subject: a.Subject}
}
