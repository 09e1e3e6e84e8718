package scenario

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// ceremonyRoot contains the tested fields of a root of trust or a draft.
type ceremonyRoot struct{ Signatures []ceremonySignature }

type ceremonySignature struct {
	KeyID string `json:"keyid"`
}

// The test runs the commands in docs/guides/key-ceremonies.md. A separate folder represents each machine.
func TestKeyCeremonyGuideWorks(t *testing.T) {
	suite.Long(t) // the short suite runs TestKeysRotateWithoutRestart
	runInQueue(t)
	binaries, err := fleet.Build()
	must(t, err)
	s := newPlainShell(t, t.TempDir(), binaries)
	must(t, os.WriteFile(filepath.Join(s.dir, "passphrase"), []byte("of a test\n"), 0o600))
	holders := map[string]string{} // thumbprint of each holder's key
	ran := 0
	for _, step := range guide(t, "key-ceremonies.md")[""] {
		s.env = append(s.env, "OLD_ROOT_KEY="+holders["cleo"], "REMOVED_ROOT_KEY="+holders["ada"])
		s.run(step.Script)
		ran++
		s.note(holders)
		s.checkCeremony(step.Section, holders)
	}
	if ran < 9 || holders["cleo"] == "" {
		t.Errorf("ran %d blocks with holders %v, want all blocks and holders", ran, holders)
	}
	shown := s.run("kcp-publisher keys show --keys keys -o json")
	left := s.rootKeys()
	if len(left) != 2 || !strings.Contains(shown, `"version": 5`) || !slices.Contains(left, holders["bob"]) ||
		slices.Contains(left, holders["cleo"]) {
		t.Errorf("want holders %v, got after the last command:\n%s", holders, shown)
	}
	// A signature with the removed holder's key must not count toward the threshold.
	s.run("kcp-publisher keys rotate --keys keys && cp keys/root-6.draft.json keys/root.json ada/ && " +
		"kcp-publisher keys sign ada/root-6.draft.json --passphrase-file passphrase --keys ada")
	if _, err := os.Stat(filepath.Join(s.dir, "ada", "root-6.json")); err == nil {
		t.Error("a removed key completed a draft")
	}
}

// checkCeremony checks that a section of the guide had the documented result.
func (s shell) checkCeremony(section string, holders map[string]string) {
	s.t.Helper()
	switch section {
	case "Begin":
		if left, _ := filepath.Glob(filepath.Join(s.dir, "keys", "root*.key")); len(left) > 0 &&
			exists(filepath.Join(s.dir, "ada")) {
			s.t.Errorf("the publisher's machine still has the root keys %v", left)
		}
	case "Rotate the publisher's key":
		if exists(filepath.Join(s.dir, "keys", "publisher.key.next")) &&
			!exists(filepath.Join(s.dir, "keys", "root-3.json")) {
			s.t.Error("the new key is still pending")
		}
	case "Replace a root key":
		if exists(filepath.Join(s.dir, "keys", "root-4.json")) && slices.Contains(s.rootKeys(), holders["cleo"]) {
			s.t.Errorf("the replaced key %s is still listed", holders["cleo"])
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// rootKeys returns the thumbprints of the root keys in the publisher's folder.
func (s shell) rootKeys() (thumbprints []string) {
	s.t.Helper()
	for _, key := range s.shownKeys() {
		if key.Role == "root" {
			thumbprints = append(thumbprints, key.Thumbprint)
		}
	}
	return thumbprints
}

type ceremonyKey struct{ Role, Thumbprint, ID string }

func (s shell) shownKeys() []ceremonyKey {
	s.t.Helper()
	var shown struct{ Keys []ceremonyKey }
	must(s.t, json.Unmarshal([]byte(s.run("kcp-publisher keys show --keys keys -o json")), &shown))
	return shown.Keys
}

// note records the thumbprint of each holder's key. It relies on the order of the holders' signatures in the guide.
func (s shell) note(holders map[string]string) {
	s.t.Helper()
	draft, complete := filepath.Join(s.dir, "ada", "root-2.draft.json"), filepath.Join(s.dir, "bob", "root-2.json")
	if signers := s.signers(draft); holders["ada"] == "" && len(signers) == 1 {
		holders["ada"] = signers[0]
	}
	if signers := s.signers(complete); holders["bob"] == "" && len(signers) == 2 {
		holders["bob"] = signers[1-slices.Index(signers, holders["ada"])]
		for _, thumbprint := range s.rootKeys() {
			if thumbprint != holders["ada"] && thumbprint != holders["bob"] {
				holders["cleo"] = thumbprint
			}
		}
	}
}

// signers returns the thumbprints of the keys that signed a root, or nil if the file does not exist.
func (s shell) signers(path string) (thumbprints []string) {
	s.t.Helper()
	if !exists(path) {
		return nil
	}
	data, err := os.ReadFile(path)
	must(s.t, err)
	var root ceremonyRoot
	must(s.t, json.Unmarshal(data, &root))
	for _, key := range s.shownKeys() {
		if slices.ContainsFunc(root.Signatures,
			func(signature ceremonySignature) bool { return signature.KeyID == key.ID }) {
			thumbprints = append(thumbprints, key.Thumbprint)
		}
	}
	return thumbprints
}
