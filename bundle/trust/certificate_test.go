package trust_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/sigstore/sigstore/pkg/signature"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

func enrolled(t testing.TB, fleet string) (trust.Root, trust.Signer) {
	t.Helper()
	m := trusttest.NewRootFixture(t)
	enroll := trusttest.NewSigner(t)
	draft := trust.DraftRoot(fleet, 1, trusttest.Now.AddDate(1, 0, 0))
	m.Must(draft.Add(trust.RoleRoot, trusttest.PublicKey(t, m.Keys[0])))
	m.Must(draft.Add(trust.RolePublisher, trusttest.PublicKey(t, m.Publisher)))
	m.Must(draft.Add(trust.RoleEnroll, trusttest.PublicKey(t, enroll)))
	root, err := trust.ParseRoot(m.Signed(draft, m.Keys[0]))
	m.Must(err)
	return root, enroll
}

func TestCertificateIsValidForOneRuntimeOnly(t *testing.T) {
	root, enroll := enrolled(t, "fleet-a")
	otherRoot, _ := enrolled(t, "fleet-a")
	otherFleet := root
	otherFleet.Fleet = "fleet-b"
	agent := trusttest.NewSigner(t)
	issue := func(by trust.Signer, fleet, runtime string) string {
		text, err := trust.IssueCertificate(by, fleet, runtime, trust.Kyma{}, trusttest.PublicKey(t, agent),
			trusttest.Now, trusttest.Now.AddDate(0, 0, 90))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	good := issue(enroll, "fleet-a", "a")
	revoked := root
	revoked.Revoked = []string{trusttest.Thumbprint(t, agent)}
	for name, c := range map[string]struct {
		root          trust.Root
		text, runtime string
		at            time.Time
		want          string
	}{
		"certificate of this runtime":     {root, good, "a", trusttest.Now, ""},
		"last day of the validity period": {root, good, "a", trusttest.Now.AddDate(0, 0, 89), ""},
		"runtime name that begins with the certified name": {
			root, good, "a1", trusttest.Now, `for runtime "a", but this is runtime "a1"`,
		},
		"certified name that begins with the runtime name": {
			root, issue(enroll, "fleet-a", "a1"), "a", trusttest.Now, `for runtime "a1", but this is runtime "a"`,
		},
		"certificate from another fleet": {otherFleet, good, "a", trusttest.Now, `for runtime "a"`},
		"certificate issued by an unknown key": {
			root, issue(trusttest.NewSigner(t), "fleet-a", "a"), "a", trusttest.Now,
			"was not issued by an enrollment key",
		},
		"certificate issued by the agent's own key": {
			root, issue(agent, "fleet-a", "a"), "a", trusttest.Now, "was not issued by an enrollment key",
		},
		"certificate from another root": {
			otherRoot, good, "a", trusttest.Now, "was not issued by an enrollment key",
		},
		"expired certificate": {
			root, good, "a", trusttest.Now.AddDate(0, 0, 90), "is only valid from",
		},
		"certificate that is not valid yet": {
			root, good, "a", trusttest.Now.AddDate(0, 0, -30), "is only valid from",
		},
		"certificate for a revoked key": {revoked, good, "a", trusttest.Now, "is revoked"},
		"two certificates": {
			root, good + good, "a", trusttest.Now, "exactly one PEM block",
		},
		"empty text": {root, "", "a", trusttest.Now, "exactly one PEM block"},
		"text longer than the limit": {
			root, good + strings.Repeat("\n", 8<<10), "a", trusttest.Now, "at most",
		},
		"certificate request instead of a certificate": {
			root, request(t, agent), "a", trusttest.Now, "exactly one PEM block",
		},
		"invalid runtime ID": {root, good, "a/../b", trusttest.Now, "runtime ID"},
	} {
		t.Run(name, func(t *testing.T) {
			certificate, err := c.root.CheckCertificate(c.text, c.runtime, c.at)
			if c.want == "" &&
				(err != nil || certificate.Thumbprint != trusttest.Thumbprint(t, agent) ||
					!certificate.RenewAt().Equal(trusttest.Now.AddDate(0, 0, 30))) {
				t.Fatalf("got certificate %+v, error %v, want the agent's certificate", certificate, err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func request(t *testing.T, signer trust.Signer) string {
	t.Helper()
	text, err := trust.NewCertificateRequest(signer)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestCertificateRequestProvesPossessionOfItsKey(t *testing.T) {
	agent := trusttest.NewSigner(t)
	good := request(t, agent)
	key, err := trust.RequestKey(good)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := trust.Thumbprint(key); err != nil || got != trusttest.Thumbprint(t, agent) {
		t.Errorf("got thumbprint %s, error %v, want the thumbprint of the agent's key", got, err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := signature.LoadECDSASigner(p384, crypto.SHA384)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode([]byte(good))
	forged := append([]byte{}, block.Bytes...)
	forged[len(forged)-1] ^= 1
	for name, text := range map[string]string{
		"empty text":                          "",
		"certificate instead of a request":    strings.ReplaceAll(good, " REQUEST", ""),
		"request with a key on another curve": request(t, other),
		"request with a different signature": string(
			pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: forged}),
		),
	} {
		if _, err := trust.RequestKey(text); err == nil {
			t.Errorf("%s: got no error, want an error", name)
		}
	}
	if _, err := x509.ParseCertificateRequest(block.Bytes); err != nil {
		t.Error(err)
	}
}

func TestCertificateIdentifiesARuntimeAfterDataLoss(t *testing.T) {
	root, enroll := enrolled(t, "fleet-a")
	agent, attacker := trusttest.NewSigner(t), trusttest.NewSigner(t)
	certificate, err := trust.IssueCertificate(enroll, "fleet-a", trusttest.Runtime, trust.Kyma{},
		trusttest.PublicKey(t, agent), trusttest.Now, trusttest.Now.AddDate(0, 0, 90))
	if err != nil {
		t.Fatal(err)
	}
	report := func(by trust.Signer, fleet string) bundle.Fetched {
		blob, err := bundle.ComposeReport(bundle.Report{Runtime: trusttest.Runtime, Fleet: fleet, Sequence: 5,
			Time: trusttest.Now, Certificate: certificate}, by)
		if err != nil {
			t.Fatal(err)
		}
		return bundle.Fetched(blob)
	}
	forgetful := bundle.Reporter{Runtime: trusttest.Runtime, Fleet: "fleet-a",
		Certified: func(text string) (crypto.PublicKey, error) {
			c, err := root.CheckCertificate(text, trusttest.Runtime, trusttest.Now)
			return c.Key, err
		}}
	accepted, err := bundle.VerifyReport(report(agent, "fleet-a"), forgetful)
	if err != nil || !accepted.Enrolled {
		t.Fatalf("got report %+v, error %v, want an enrolled key", accepted, err)
	}
	_, err = bundle.VerifyReport(report(attacker, "fleet-a"), forgetful)
	trusttest.WantReason(t, err, refusal.ForeignKey)
	_, err = bundle.VerifyReport(report(agent, "fleet-b"), forgetful)
	trusttest.WantReason(t, err, refusal.WrongRuntime)
	knowing := forgetful
	knowing.Key = trusttest.PublicKey(t, attacker)
	_, err = bundle.VerifyReport(report(agent, "fleet-a"), knowing)
	trusttest.WantReason(t, err, refusal.ForeignKey)
	revoking := forgetful
	revoking.Revoked = func(hint string) bool { return hint == trusttest.Thumbprint(t, agent) }
	_, err = bundle.VerifyReport(report(agent, "fleet-a"), revoking)
	trusttest.WantReason(t, err, refusal.Revoked)
}

func FuzzCertificates(f *testing.F) {
	root, enroll := enrolled(f, "fleet-a")
	agent := trusttest.NewSigner(f)
	good, err := trust.IssueCertificate(enroll, "fleet-a", "a", trust.Kyma{}, trusttest.PublicKey(f, agent),
		trusttest.Now, trusttest.Now.AddDate(0, 0, 90))
	if err != nil {
		f.Fatal(err)
	}
	request, err := trust.NewCertificateRequest(agent)
	if err != nil {
		f.Fatal(err)
	}
	own := trusttest.Thumbprint(f, agent)
	for _, text := range []string{good, request, good + good, good + request, "",
		"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if certificate, err := root.CheckCertificate(text, "a", trusttest.Now); err == nil &&
			certificate.Thumbprint != own {
			t.Errorf("accepted a certificate of key %s, want an error", certificate.Thumbprint)
		}
		if key, err := trust.RequestKey(text); err == nil && key == nil {
			t.Error("accepted a request without a key, want an error")
		}
	})
}
