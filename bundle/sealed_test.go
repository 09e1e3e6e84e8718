package bundle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"

	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

const plainValue = "correct horse battery staple"

func identity(t testing.TB) *age.X25519Identity {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func password(revision string) RuntimeSecret {
	return RuntimeSecret{
		Namespace: "kyma-system", Name: "btp", Labels: map[string]string{"app": "btp"}, Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{"password": []byte(plainValue)}, Module: "btp-operator", Revision: revision,
	}
}

func TestOnlyTheRecipientCanOpenSealedSecrets(t *testing.T) {
	own, other := identity(t), identity(t)
	secrets := Secrets{Secrets: []RuntimeSecret{password("1")}, Removals: []string{"kyma-system/old"}}
	sealed, err := secrets.Seal(trusttest.Runtime, own.Recipient().String())
	if err != nil {
		t.Fatal(err)
	}
	travels, err := json.Marshal(sealed)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{plainValue, "password", "btp-operator", "kyma-system/old"} {
		if bytes.Contains(travels, []byte(secret)) || bytes.Contains(sealed.Data, []byte(secret)) {
			t.Errorf("sealed data contains %q in plain text", secret)
		}
	}
	opened, err := sealed.Open(trusttest.Runtime, own)
	if err != nil {
		t.Fatal(err)
	}
	if s := opened.Secrets[0]; string(s.Data["password"]) != plainValue || s.NamespacedName() != "kyma-system/btp" ||
		s.Labels["app"] != "btp" ||
		s.Module != "" ||
		opened.Removals[0] != "kyma-system/old" {
		t.Errorf("got opened Secrets %+v, want the sealed Secrets", opened)
	}

	posing := *sealed
	posing.Recipient = other.Recipient().String()
	cut := *sealed
	cut.Data = cut.Data[:len(cut.Data)-1]
	turned := *sealed
	turned.Data = bytes.Clone(turned.Data)
	turned.Data[len(turned.Data)-20] ^= 1
	large := *sealed
	large.Data = make([]byte, MaxSealedBytes+1)
	for name, c := range map[string]struct {
		sealed  *Sealed
		runtime string
		by      *age.X25519Identity
		why     string
	}{
		"opened by another agent": {sealed, trusttest.Runtime, other, "another agent's key"},
		"opened by another agent that is named as recipient": {
			&posing, trusttest.Runtime, other, "cannot be decrypted",
		},
		"opened in another runtime":  {sealed, "r-18", own, "another runtime"},
		"truncated data":             {&cut, trusttest.Runtime, own, "cannot be decrypted"},
		"data with a flipped bit":    {&turned, trusttest.Runtime, own, "cannot be decrypted"},
		"data larger than the limit": {&large, trusttest.Runtime, own, "at most"},
	} {
		if opened, err := c.sealed.Open(c.runtime, c.by); err == nil || !strings.Contains(err.Error(), c.why) ||
			strings.Contains(err.Error(), plainValue) ||
			len(opened.Secrets) > 0 {
			t.Errorf("%s: got error %v, want an error with %q and without content", name, err, c.why)
		}
	}
}

func encrypted(t *testing.T, to *age.X25519Identity, plain string) *Sealed {
	t.Helper()
	var out bytes.Buffer
	w, err := age.Encrypt(&out, to.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(plain)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &Sealed{Recipient: to.Recipient().String(), Data: out.Bytes()}
}

func TestOpenRefusesProtectedAndInvalidSecrets(t *testing.T) {
	own := identity(t)
	one := func(namespace, name, kind string) string {
		return fmt.Sprintf(`{"runtime":"r-17","secrets":[{"namespace":%q,"name":%q,"type":%q,"data":{"a":"%s"}}]}`,
			namespace, name, kind, "c2VjcmV0")
	}
	many := `{"runtime":"r-17","secrets":[` +
		strings.TrimSuffix(strings.Repeat(`{"namespace":"a","name":"b","data":{}},`, MaxSecrets+1), ",") + `]}`
	for name, c := range map[string]struct{ plain, why string }{
		"Secret with the agent's state": {one("kyma-system", "skr-agent-state", ""), "reserved for the agent"},
		"Secret with the agent's stored content": {
			one("kyma-system", "kyma-pull-content-1", ""), "reserved for the agent",
		},
		"Secret in a system namespace": {one("kube-system", "a", ""), "reserved for the cluster"},
		"ServiceAccount token": {
			one("a", "b", "kubernetes.io/service-account-token"), "reserved for Kubernetes",
		},
		"bootstrap token": {
			one("a", "b", "bootstrap.kubernetes.io/token"), "reserved for Kubernetes",
		},
		"namespace that is a path": {one("a/../b", "c", ""), "must be a valid namespace and name"},
		"name that is a path":      {one("a", "b/c", ""), "must be a valid namespace and name"},
		"duplicate Secret": {
			`{"runtime":"r-17","secrets":[{"namespace":"a","name":"b","data":{}},` +
				`{"namespace":"a","name":"b","data":{}}]}`, "duplicate",
		},
		"Secret that is also a removal": {
			`{"runtime":"r-17","secrets":[{"namespace":"a","name":"b","data":{}}],"removals":["a/b"]}`,
			"in both secrets and removals",
		},
		"removal of the agent's key": {
			`{"runtime":"r-17","secrets":[],"removals":["kyma-system/skr-agent-key"]}`, "reserved for the agent",
		},
		"removal without a namespace": {
			`{"runtime":"r-17","secrets":[],"removals":["b"]}`, "must be a valid namespace and name",
		},
		"more Secrets than the limit": {many, "at most 64"},
		"unknown field": {
			`{"runtime":"r-17","secrets":[],"finalizers":["c2VjcmV0"]}`, "cannot be decoded",
		},
		"duplicate field":                 {`{"runtime":"r-17","runtime":"r-17","secrets":[]}`, "cannot be decoded"},
		"capitalized field":               {`{"runtime":"r-17","Secrets":[]}`, "cannot be decoded"},
		"content that is not JSON":        {"c2VjcmV0", "cannot be decoded"},
		"JSON array instead of an object": {`["c2VjcmV0"]`, "cannot be decoded"},
		"data that is not base64": {
			`{"runtime":"r-17","secrets":[{"namespace":"a","name":"b","data":{"a":"-c2VjcmV0-"}}]}`,
			"cannot be decoded",
		},
		"empty object": {`{}`, "another runtime"},
	} {
		if _, err := encrypted(t, own, c.plain).Open(trusttest.Runtime, own); err == nil ||
			!strings.Contains(err.Error(), c.why) ||
			strings.Contains(err.Error(), "c2VjcmV0") {
			t.Errorf("%s: got error %v, want an error with %q and without content", name, err, c.why)
		}
	}
}

func TestSealRefusesInvalidInput(t *testing.T) {
	to := identity(t).Recipient().String()
	big := password("1")
	big.Data = map[string][]byte{"a": make([]byte, MaxSealedBytes)}
	own := password("1")
	own.Name = "skr-agent-key"
	for name, c := range map[string]struct {
		secrets   []RuntimeSecret
		recipient string
		why       string
	}{
		"invalid recipient":               {[]RuntimeSecret{password("1")}, "age1nobody", "X25519"},
		"SSH key as recipient":            {[]RuntimeSecret{password("1")}, "ssh-ed25519 AAAA", "X25519"},
		"identity instead of a recipient": {[]RuntimeSecret{password("1")}, identity(t).String(), "X25519"},
		"missing recipient":               {[]RuntimeSecret{password("1")}, "", "X25519"},
		"Secrets larger than the limit":   {[]RuntimeSecret{big}, to, "smaller"},
		"name reserved for the agent":     {[]RuntimeSecret{own}, to, "reserved for the agent"},
	} {
		if _, err := (Secrets{Secrets: c.secrets}).Seal(trusttest.Runtime, c.recipient); err == nil ||
			!strings.Contains(err.Error(), c.why) ||
			strings.Contains(err.Error(), "AGE-SECRET-KEY") {
			t.Errorf("%s: got error %v, want an error with %q and without the identity", name, err, c.why)
		}
	}
}

func TestLargestSealedSecretsFitInABundle(t *testing.T) {
	to := identity(t).Recipient().String()
	fill := func(n int) Secrets {
		s := password("1")
		s.Data = map[string][]byte{"a": make([]byte, n)}
		return Secrets{Secrets: []RuntimeSecret{s}}
	}
	n := MaxSealedBytes * 3 / 4
	for ; n > 0; n -= 16 {
		if _, err := fill(n).Seal(trusttest.Runtime, to); err == nil {
			break
		}
	}
	if n < 17_000 {
		t.Errorf("docs/guides/secrets.md promises 17,000 bytes, but only %d fit", n)
	}
	sealed, err := fill(n).Seal(trusttest.Runtime, to)
	if err != nil {
		t.Fatal(err)
	}
	statement := reportStatement{
		Type:          StatementType,
		PredicateType: strings.Repeat("x", 8<<10),
	}
	data, err := json.Marshal(struct {
		reportStatement
		Sealed *Sealed
	}{statement, sealed})
	if err != nil {
		t.Fatal(err)
	}
	signed, err := attest(json.RawMessage(data), trusttest.NewSigner(t))
	if err != nil || len(signed) > MaxAttestationBytes {
		t.Errorf("signed statement is %d bytes, want at most %d; error %v", len(signed), MaxAttestationBytes, err)
	}
}

func TestSecretRevisionDoesNotRevealContent(t *testing.T) {
	to := identity(t).Recipient().String()
	base := Secrets{
		Secrets:  []RuntimeSecret{password("1"), {Namespace: "a", Name: "b", Revision: "7"}},
		Removals: []string{"a/x", "a/y"},
	}
	named := base.RevisionFor(to)
	turned := Secrets{Secrets: []RuntimeSecret{base.Secrets[1], base.Secrets[0]}, Removals: []string{"a/y", "a/x"}}
	if turned.RevisionFor(to) != named {
		t.Error("the revision depends on the order, want the same revision")
	}
	guess := password("1")
	guess.Data = map[string][]byte{"password": []byte("a guess")}
	if (Secrets{Secrets: []RuntimeSecret{guess, base.Secrets[1]}, Removals: base.Removals}).RevisionFor(to) != named {
		t.Error("the revision depends on the content, want the same revision")
	}
	for name, other := range map[string]Secrets{
		"Secret with another content": {
			Secrets: []RuntimeSecret{password("2"), base.Secrets[1]}, Removals: base.Removals,
		},
		"Secret missing":           {Secrets: base.Secrets[:1], Removals: base.Removals},
		"removal missing":          {Secrets: base.Secrets, Removals: base.Removals[:1]},
		"Secret moved to removals": {Secrets: base.Secrets[:1], Removals: []string{"a/x", "a/y", "a/b"}},
	} {
		if other.RevisionFor(to) == named {
			t.Errorf("%s: got the same revision, want another one", name)
		}
	}
	if base.RevisionFor(identity(t).Recipient().String()) == named {
		t.Error("another recipient: got the same revision, want another one")
	}
}

func BenchmarkSecrets(b *testing.B) {
	own := identity(b)
	secrets := Secrets{Secrets: []RuntimeSecret{password("1")}}
	sealed, err := secrets.Seal(trusttest.Runtime, own.Recipient().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Run("seal", func(b *testing.B) {
		for b.Loop() {
			if _, err := secrets.Seal(trusttest.Runtime, own.Recipient().String()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			if _, err := sealed.Open(trusttest.Runtime, own); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.ReportMetric(float64(len(sealed.Data)), "bytes")
}

func TestOversizedSecretDoesNotBlockOthers(t *testing.T) {
	to := identity(t).Recipient().String()
	of := func(name string, n int) RuntimeSecret {
		s := password("1")
		s.Name, s.Data = name, map[string][]byte{"a": make([]byte, n)}
		return s
	}
	all := Secrets{
		Secrets:  []RuntimeSecret{of("huge", MaxSealedBytes), of("small", 10)},
		Removals: []string{"kyma-system/old"},
	}
	for n := 100; n < MaxSealedBytes; n += 997 {
		all.Secrets = append(all.Secrets, of(fmt.Sprintf("s-%d", n), n))
		fitting, err := all.SelectFitting(trusttest.Runtime)
		if err == nil || !strings.Contains(err.Error(), "secret kyma-system/huge: 32") ||
			!strings.Contains(err.Error(), "at most 2") ||
			strings.Contains(err.Error(), "/small") {
			t.Fatalf("%d bytes: got error %v, want an error about the large Secret only", n, err)
		}
		named := strings.Count(err.Error(), "secret kyma-system/")
		if len(fitting.Secrets)+named != len(all.Secrets) || len(fitting.Removals) != 1 ||
			fitting.Secrets[0].Name != "small" {
			t.Fatalf("%d bytes: got %d fitting Secrets and %d Secrets in the error, want each Secret in one of them", n,
				len(fitting.Secrets), named)
		}
		if _, err := fitting.Seal(trusttest.Runtime, to); err != nil {
			t.Fatalf("%d bytes: sealing the fitting Secrets: got error %v, want no error", n, err)
		}
	}
	var many Secrets
	for i := range MaxSecrets + 1 {
		many.Secrets = append(many.Secrets, of(fmt.Sprintf("s-%02d", i), 1))
	}
	fitting, err := many.SelectFitting(trusttest.Runtime)
	if err == nil || !strings.Contains(err.Error(), "secret kyma-system/s-64: ") || len(fitting.Secrets) != MaxSecrets {
		t.Errorf("got %d fitting Secrets, error %v, want %d", len(fitting.Secrets), err, MaxSecrets)
	}
	promised := Secrets{Secrets: []RuntimeSecret{of("promised", 17_000)}}
	if fitting, err := promised.SelectFitting(trusttest.Runtime); err != nil || len(fitting.Secrets) != 1 {
		t.Errorf("17,000 bytes must fit, as docs/guides/secrets.md promises: got error %v", err)
	}
}

func TestRemovalsDoNotBlockSecretsOrLaterRemovals(t *testing.T) {
	to := identity(t).Recipient().String()
	waiting := Secrets{Secrets: []RuntimeSecret{password("1")}}
	for i := range 2 * MaxSecretRemovals {
		waiting.Removals = append(waiting.Removals, fmt.Sprintf("kyma-system/%03d%s", i, strings.Repeat("n", 240)))
	}
	for rounds := 0; len(waiting.Removals) > 0; rounds++ {
		fitting, err := waiting.SelectFitting(trusttest.Runtime)
		if len(fitting.Secrets) != 1 || len(fitting.Removals) == 0 || rounds > 2*MaxSecretRemovals {
			t.Fatalf("got %d Secrets, %d removals and error %v in round %d, want the Secret and some removals",
				len(fitting.Secrets), len(fitting.Removals), err, rounds)
		}
		if all := len(fitting.Removals) == len(waiting.Removals); all != (err == nil) {
			t.Errorf("got %d of %d removals and error %v", len(fitting.Removals), len(waiting.Removals), err)
		}
		if _, err := fitting.Seal(trusttest.Runtime, to); err != nil {
			t.Fatal(err)
		}
		waiting.Removals = waiting.Removals[len(fitting.Removals):]
	}
}
