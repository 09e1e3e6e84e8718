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

func TestCertificateNamesItsKyma(t *testing.T) {
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

func TestKymasAreComparedByNameAndUID(t *testing.T) {
	kyma := func(namespace, name, uid string) trust.Kyma {
		return trust.Kyma{Namespace: namespace, Name: name, UID: uid}
	}
	for _, c := range []struct {
		name string
		a, b trust.Kyma
		want bool
	}{
		{"equal Kymas", kyma("prod", "berlin", "1"), kyma("prod", "berlin", "1"), true},
		{"one Kyma without a UID", kyma("prod", "berlin", "1"), kyma("prod", "berlin", ""), true},
		{"one Kyma without a namespace", kyma("prod", "berlin", "1"), kyma("", "berlin", "1"), true},
		{"Kymas with different UIDs", kyma("prod", "berlin", "1"), kyma("prod", "berlin", "2"), false},
		{"Kymas in different namespaces", kyma("prod", "berlin", ""), kyma("dev", "berlin", ""), false},
		{"Kymas with different names", kyma("prod", "berlin", "1"), kyma("prod", "tokyo", "1"), false},
	} {
		if got := c.a.Matches(c.b); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
		if got := c.b.Matches(c.a); got != c.want {
			t.Errorf("%s, in the other order: got %v, want %v", c.name, got, c.want)
		}
	}
}
