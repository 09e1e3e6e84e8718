package trust_test

import (
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

func TestParseKymaAcceptsNamespaceAndName(t *testing.T) {
	for text, want := range map[string]trust.Kyma{
		"berlin":                            {Namespace: "kcp-system", Name: "berlin"},
		"prod/berlin":                       {Namespace: "prod", Name: "berlin"},
		"/berlin":                           {},
		"prod/":                             {},
		"":                                  {},
		"a/b/c":                             {},
		"ber\nlin":                          {},
		"prod/../x":                         {},
		"prod/b" + strings.Repeat("b", 300): {},
	} {
		got, err := trust.ParseKyma(text)
		if (err == nil) != (want != trust.Kyma{}) || err == nil && got != want {
			t.Errorf("%q: got Kyma %v, error %v, want %v", text, got, err, want)
		}
	}
}

func TestCertificateContainsTheKyma(t *testing.T) {
	root, enroll := enrolled(t, "fleet-a")
	agent := trusttest.NewSigner(t)
	for _, kyma := range []trust.Kyma{{}, {Namespace: "kcp-system", Name: "berlin"},
		{Namespace: "kcp-system", Name: "berlin", UID: "8f0c"}} {
		text, err := trust.IssueCertificate(enroll, "fleet-a", "a", kyma, trusttest.PublicKey(t, agent), trusttest.Now,
			trusttest.Now.AddDate(0, 0, 90))
		if err != nil {
			t.Fatal(err)
		}
		got, err := root.CheckCertificate(text, "a", trusttest.Now)
		if err != nil || got.Kyma != kyma {
			t.Errorf("got Kyma %v, error %v, want %v", got.Kyma, err, kyma)
		}
	}
}
