package signature

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const head = "apiVersion: kyma-pull.dev/v1\nkind: SignaturePolicy\n"

func publicPEM(t *testing.T, key *rsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func newKey(t *testing.T, bits int) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestFirstMatchingRuleDecides(t *testing.T) {
	policy, err := decodePolicy([]byte(head+`rules:
- {components: kyma-project.io/module/sample, required: false}
- {components: kyma-project.io/module/*, required: true, signatures: [release]}
- {components: "*.example/*", required: true}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for component, want := range map[string]string{
		"kyma-project.io/module/sample":    "not required",
		"kyma-project.io/module/sample-2":  "required",
		"kyma-project.io/module/deep/keda": "required",
		"a.example/x":                      "required",
		"a.example.org/x":                  "no rule",
		"xkyma-project.io/module/keda":     "no rule",
	} {
		r, ok := policy.ruleFor(component)
		got := map[bool]string{true: "required", false: "not required"}[r.required]
		if !ok {
			got = "no rule"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", component, got, want)
		}
	}
}

func TestInvalidSignaturePolicyErrorNamesTheField(t *testing.T) {
	good := string(publicPEM(t, newKey(t, 2048)))
	keys := func(name string) ([]byte, error) {
		switch name {
		case "good.pem":
			return []byte(good), nil
		case "private.pem":
			return []byte(strings.ReplaceAll(good, "PUBLIC", "PRIVATE")), nil
		case "authority.pem":
			return authorityPEM(t), nil
		case "weak.pem":
			return publicPEM(t, newKey(t, 1024)), nil
		}
		return nil, errors.New("open " + name + ": no such file")
	}
	for name, c := range map[string]struct{ in, want string }{
		"policy with a different kind": {
			"apiVersion: v1\nkind: Secret\n", "must be apiVersion kyma-pull.dev/v1 and kind SignaturePolicy",
		},
		"Kyma instead of a policy": {
			"apiVersion: operator.kyma-project.io/v1beta2\nkind: Kyma\nmetadata: {name: berlin}\n",
			"kind is \"Kyma\", must be apiVersion kyma-pull.dev/v1 and kind SignaturePolicy",
		},
		"empty rules": {head + "rules: []\n", "rules must not be empty"},
		"unknown field": {
			head + "rules: [{components: '*', required: true, key: good.pem}]\n", `unknown field "key"`,
		},
		"duplicate key": {head + "rules: []\nrules: []\n", `key "rules" appears twice`},
		"rule without components": {
			head + "rules: [{required: true}]\n", `rules[0].components: "" is not a component name`,
		},
		"regular expression as pattern": {
			head + "rules: [{components: 'a.(io|com)/x', required: true}]\n", "rules[0].components",
		},
		"required is not set": {head + "rules: [{components: '*'}]\n", "rules[0].required must be true or false"},
		"keys in a rule that requires no signature": {
			head + "rules: [{components: '*', required: false, keys: [good.pem]}]\n", "rules[0].required is false",
		},
		"missing key file": {
			head + "rules: [{components: '*', required: true, keys: [nowhere.pem]}]\n",
			"rules[0].keys[0]: open nowhere.pem",
		},
		"private key as key file": {
			head + "rules: [{components: '*', required: true, keys: [private.pem]}]\n",
			"rules[0].keys[0]: private.pem: contains a private key",
		},
		"RSA key of 1024 bits": {
			head + "rules: [{components: '*', required: true, keys: [good.pem, weak.pem]}]\n",
			"rules[0].keys[1]: weak.pem: RSA key of 1024 bits is too weak",
		},
		"CA certificate without a subject": {
			head + "rules: [{components: '*', required: true, keys: [authority.pem]}]\n",
			"subject is required for certificates",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := decodePolicy([]byte(c.in), keys); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestKeysAreReadRelativeToThePolicy(t *testing.T) {
	dir := t.TempDir()
	for name, data := range map[string][]byte{
		"policy.yaml": []byte(head + "rules: [{components: '*', required: true, keys: [release.pem]}]\n"),
		"release.pem": publicPEM(t, newKey(t, 2048)),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	policy, err := ReadPolicy(filepath.Join(dir, "policy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if r, _ := policy.ruleFor("a.io/b"); len(r.trust.Keys) != 1 {
		t.Errorf("got keys %v, want 1", r.trust)
	}
	verifier := NewVerifier(policy, time.Now)
	reread := func() bool {
		t.Helper()
		policy, err := ReadPolicy(filepath.Join(dir, "policy.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		return verifier.SetPolicy(policy)
	}
	if reread() {
		t.Error("SetPolicy of an unchanged policy: got true, want false")
	}
	if err := os.WriteFile(filepath.Join(dir, "release.pem"), publicPEM(t, newKey(t, 2048)), 0o600); err != nil ||
		!reread() {
		t.Errorf("SetPolicy with another key: got false, want true; error %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "policy.yaml"),
		[]byte(head+"rules: [{components: '*', required: false}]\n"), 0o600); err != nil || !reread() ||
		verifier.RequiresSignature("a.io/b") {
		t.Errorf("SetPolicy with another rule: got false, want true; error %v", err)
	}
	if _, err := ReadPolicy(filepath.Join(dir, "nowhere.yaml")); err == nil ||
		!strings.Contains(err.Error(), "nowhere.yaml") {
		t.Errorf("missing policy: got error %v, want one with the file", err)
	}
}

func authorityPEM(t *testing.T) []byte {
	t.Helper()
	key := newKey(t, 2048)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
