package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

func TestUnsignedRootErrorMentionsDrafts(t *testing.T) {
	draft := trust.DraftRoot("ships", 1, time.Now().AddDate(1, 0, 0))
	for _, role := range []string{trust.RoleRoot, trust.RolePublisher} {
		if err := draft.Add(role, trusttest.PublicKey(t, trusttest.NewSigner(t))); err != nil {
			t.Fatal(err)
		}
	}
	data, err := draft.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "root-2.draft.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadRoot(path); err == nil || !strings.Contains(err.Error(), "the root has too few signatures") ||
		!strings.Contains(err.Error(), "`kcp-publisher keys sign`") {
		t.Errorf("got error %v, want advice to sign the draft", err)
	}
}

func TestPrivateKeyIsNotARootOfTrust(t *testing.T) {
	path := filepath.Join(t.TempDir(), "publisher.key")
	if err := os.WriteFile(path, []byte("-----BEGIN PRIVATE KEY-----\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const want = "use root.json from kcp-publisher keys init"
	if _, err := ReadRoot(path); !IsUsage(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want the name of the correct file", err)
	}
}
