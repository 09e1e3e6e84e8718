package bundle

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
)

// enrolled is a root with an enrolment key.
func enrolled(t testing.TB, fleet string) (Root, Signer) {
	t.Helper()
	m := newRootMaker(t)
	enrol := newSigner(t)
	draft := DraftRoot(fleet, 1, testNow.AddDate(1, 0, 0))
	m.must(draft.Add(RoleRoot, publicKey(t, m.keys[0])))
	m.must(draft.Add(RolePublisher, publicKey(t, m.publisher)))
	m.must(draft.Add(RoleEnrol, publicKey(t, enrol)))
	root, err := ParseRoot(m.signed(draft, m.keys[0]))
	m.must(err)
	return root, enrol
}

func TestACertificateIsOneRuntimesAlone(t *testing.T) {
	root, enrol := enrolled(t, "fleet-a")
	otherRoot, _ := enrolled(t, "fleet-a")
	otherFleet := root
	otherFleet.Fleet = "fleet-b"
	agent := newSigner(t)
	issue := func(by Signer, fleet, runtime string) string {
		text, err := IssueCertificate(by, fleet, runtime, publicKey(t, agent), testNow, testNow.AddDate(0, 0, 90))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	good := issue(enrol, "fleet-a", "a")
	revoked := root
	revoked.Revoked = []string{thumbprint(t, agent)}
	for name, c := range map[string]struct {
		root          Root
		text, runtime string
		at            time.Time
		want          string
	}{
		"its own":                      {root, good, "a", testNow, ""},
		"its last day":                 {root, good, "a", testNow.AddDate(0, 0, 89), ""},
		"a name that begins so":        {root, good, "a1", testNow, `is "a"'s, this is "a1"`},
		"a name that it begins with":   {root, issue(enrol, "fleet-a", "a1"), "a", testNow, `is "a1"'s, this is "a"`},
		"another fleet's":              {otherFleet, good, "a", testNow, `is "a"'s`},
		"a stranger's":                 {root, issue(newSigner(t), "fleet-a", "a"), "a", testNow, "was issued by no key"},
		"its own key's":                {root, issue(agent, "fleet-a", "a"), "a", testNow, "was issued by no key"},
		"of another root":              {otherRoot, good, "a", testNow, "was issued by no key"},
		"expired":                      {root, good, "a", testNow.AddDate(0, 0, 90), "is good from"},
		"not yet good":                 {root, good, "a", testNow.AddDate(0, 0, -30), "is good from"},
		"revoked":                      {revoked, good, "a", testNow, "is revoked"},
		"two":                          {root, good + good, "a", testNow, "exactly one PEM block"},
		"none":                         {root, "", "a", testNow, "exactly one PEM block"},
		"endless":                      {root, good + strings.Repeat("\n", maxCertificateBytes), "a", testNow, "at most"},
		"a request":                    {root, request(t, agent), "a", testNow, "exactly one PEM block"},
		"a runtime that cannot be one": {root, good, "a/../b", testNow, "runtime id"},
	} {
		t.Run(name, func(t *testing.T) {
			certificate, err := c.root.CheckCertificate(c.text, c.runtime, c.at)
			if c.want == "" && (err != nil || certificate.Thumbprint != thumbprint(t, agent) || !certificate.RenewAt().Equal(testNow.AddDate(0, 0, 30))) {
				t.Fatalf("got %+v, %v", certificate, err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func request(t *testing.T, signer Signer) string {
	t.Helper()
	text, err := NewCertificateRequest(signer)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestARequestProvesItsKey(t *testing.T) {
	agent := newSigner(t)
	good := request(t, agent)
	key, err := Requested(good)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Thumbprint(key); err != nil || got != thumbprint(t, agent) {
		t.Errorf("got %s, %v", got, err)
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
		"nothing": "", "a certificate": strings.ReplaceAll(good, " REQUEST", ""), "of another curve": request(t, other),
		"with another signature": string(pem.EncodeToMemory(&pem.Block{Type: pemRequest, Bytes: forged})),
	} {
		if _, err := Requested(text); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if _, err := x509.ParseCertificateRequest(block.Bytes); err != nil {
		t.Error(err)
	}
}

func TestACertificateStandsForAKeyThatWasForgotten(t *testing.T) {
	root, enrol := enrolled(t, "fleet-a")
	agent, thief := newSigner(t), newSigner(t)
	certificate, err := IssueCertificate(enrol, "fleet-a", testRuntime, publicKey(t, agent), testNow, testNow.AddDate(0, 0, 90))
	if err != nil {
		t.Fatal(err)
	}
	report := func(by Signer, fleet string) Fetched {
		blob, err := ComposeReport(Report{Runtime: testRuntime, Fleet: fleet, Sequence: 5, Time: testNow, Certificate: certificate}, by)
		if err != nil {
			t.Fatal(err)
		}
		return Fetched(blob)
	}
	forgetful := Reporter{Runtime: testRuntime, Fleet: "fleet-a", Certified: func(text string) (crypto.PublicKey, error) {
		c, err := root.CheckCertificate(text, testRuntime, testNow)
		return c.Key, err
	}}
	accepted, err := VerifyReport(report(agent, "fleet-a"), forgetful)
	if err != nil || !accepted.Enrolled {
		t.Fatalf("got %+v, %v", accepted, err)
	}
	_, err = VerifyReport(report(thief, "fleet-a"), forgetful)
	wantReason(t, err, ReasonForeignKey)
	_, err = VerifyReport(report(agent, "fleet-b"), forgetful)
	wantReason(t, err, ReasonWrongRuntime)
	knowing := forgetful
	knowing.Key = publicKey(t, thief)
	_, err = VerifyReport(report(agent, "fleet-a"), knowing)
	wantReason(t, err, ReasonForeignKey)
	revoking := forgetful
	revoking.Revoked = func(hint string) bool { return hint == thumbprint(t, agent) }
	_, err = VerifyReport(report(agent, "fleet-a"), revoking)
	wantReason(t, err, ReasonRevoked)
}

// FuzzCertificates reads what a report shows before anybody knows who signed it.
func FuzzCertificates(f *testing.F) {
	root, enrol := enrolled(f, "fleet-a")
	agent := newSigner(f)
	good, err := IssueCertificate(enrol, "fleet-a", "a", publicKey(f, agent), testNow, testNow.AddDate(0, 0, 90))
	if err != nil {
		f.Fatal(err)
	}
	request, err := NewCertificateRequest(agent)
	if err != nil {
		f.Fatal(err)
	}
	own := thumbprint(f, agent)
	for _, text := range []string{good, request, good + good, good + request, "", "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if certificate, err := root.CheckCertificate(text, "a", testNow); err == nil && certificate.Thumbprint != own {
			t.Errorf("a certificate of key %s is believed", certificate.Thumbprint)
		}
		if key, err := Requested(text); err == nil && key == nil {
			t.Error("a request without a key is believed")
		}
	})
}
