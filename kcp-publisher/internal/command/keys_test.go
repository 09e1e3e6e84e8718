package command

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/keyring"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
)

func TestRotateReplacesTheEnrollmentKey(t *testing.T) {
	dir := keyFolder(t)
	shown := func() []string {
		var root keyring.ShownRoot
		if err := json.Unmarshal([]byte(mustRun(t, "keys", "show", "--keys", dir, "-o", "json")), &root); err != nil {
			t.Fatal(err)
		}
		return root.Enrollers
	}
	before := shown()
	mustRun(t, "keys", "rotate", "enroll", "--keys", dir)
	if after := shown(); slices.Equal(after, before) {
		t.Errorf("the rotation did not change the enrollment keys %v", after)
	}
}

func TestRotateWarnsAboutShortValidity(t *testing.T) {
	dir := keyFolder(t)
	const warning = "warning: the new root of trust expires in 1h0m0s"
	if o := run("keys", "rotate", "--validity", "1h", "--keys", dir); !strings.HasPrefix(o.err, warning) {
		t.Errorf("got error output %q, want %q", o.err, warning)
	}
	if o := run("keys", "rotate", "--keys", dir); o.err != "" {
		t.Errorf("got error output %q for the default validity, want none", o.err)
	}
}

func TestCredentialsWarnIfRuntimeIDResemblesServiceUser(t *testing.T) {
	dir := keyFolder(t)
	for user, want := range map[string]string{
		"publisher": "warning: this is the password of a runtime with the ID publisher; for the user _publisher, run ",
		"berlin":    "", "_publisher": "",
	} {
		o := run("registry", "credentials", user, "--location", "registry.example/fleet", "--keys", dir)
		if o.code != cli.ExitDone || !strings.HasPrefix(o.err, want) || want == "" && o.err != "" {
			t.Errorf("%s: got %+v, want error output %q", user, o, want)
		}
	}
}

func shownKeys(t *testing.T, dir string) keyring.ShownRoot {
	t.Helper()
	var root keyring.ShownRoot
	if err := json.Unmarshal([]byte(mustRun(t, "keys", "show", "--keys", dir, "-o", "json")), &root); err != nil {
		t.Fatal(err)
	}
	return root
}

// keyIn returns the role's key with this state. The test fails unless exactly one such key exists.
func keyIn(t *testing.T, s keyring.ShownRoot, role string, state keys.State) keys.Key {
	t.Helper()
	found := slices.DeleteFunc(slices.Clone(s.Keys), func(k keys.Key) bool {
		return k.Role != role || k.State != state
	})
	if len(found) != 1 {
		t.Fatalf("got %d keys of role %s with state %s, want 1: %+v", len(found), role, state, s.Keys)
	}
	return found[0]
}

func TestRevokeRefusesUnlistedKey(t *testing.T) {
	dir := keyFolder(t)
	mustRun(t, "keys", "rotate", "publisher", "--keys", dir)
	shown := shownKeys(t, dir)
	inUse, before := keyIn(t, shown, "publisher", keys.InUse), keyIn(t, shown, "publisher", keys.Accepted)
	for name, key := range map[string]string{
		"an invalid key": "abc", "an empty key": "", "a short thumbprint": before.Thumbprint[:12],
		"a truncated key id": before.ID[:16],
		"an agent key":       "bm90IGxpc3RlZCBub3QgbGlzdGVkIG5vdCBsaXN0ZWQ=",
	} {
		o := run("keys", "revoke", key, "--keys", dir, "--yes")
		if o.code != cli.ExitUsage || !strings.Contains(o.err, "nothing was changed") ||
			!strings.Contains(o.err, "\n  enroll ") || !strings.Contains(o.err, inUse.Thumbprint) ||
			!strings.Contains(o.err, before.Thumbprint) {
			t.Errorf("revoke %s: got %+v", name, o)
		}
	}
	if o := run("keys", "revoke", "abc", "--unlisted", "--keys", dir); o.code != cli.ExitUsage ||
		!strings.Contains(o.err, "is not a thumbprint") {
		t.Errorf("an invalid thumbprint with --unlisted: got %+v", o)
	}
	if got := shownKeys(t, dir); got.Version != 2 || len(got.Revoked) != 0 {
		t.Fatalf("got version %d with revoked keys %v, want version 2 without revoked keys", got.Version, got.Revoked)
	}

	mustRun(t, "keys", "revoke", before.ID, "--keys", dir) // the ID is the key's name in root.json
	if got := shownKeys(t, dir); !slices.Equal(got.Revoked, []string{before.Thumbprint}) ||
		!slices.Equal(got.Publishers, []string{inUse.Thumbprint}) {
		t.Errorf("got revoked keys %v and publisher keys %v", got.Revoked, got.Publishers)
	}
	if out := mustRun(t, "keys", "revoke", before.Thumbprint, "--keys", dir); !strings.Contains(out, "already revoked") ||
		shownKeys(t, dir).Version != 3 {
		t.Errorf("second revocation: got %s", out)
	}
	mustRun(t, "keys", "revoke", "bm90IGxpc3RlZCBub3QgbGlzdGVkIG5vdCBsaXN0ZWQ=", "--unlisted", "--keys", dir)
	if got := shownKeys(t, dir).Revoked; len(got) != 2 {
		t.Errorf("got revoked keys %v, want 2", got)
	}
}

func TestRevokingAKeyInUseRequiresConfirmation(t *testing.T) {
	dir := keyFolder(t)
	only := shownKeys(t, dir)
	for _, role := range []string{"publisher", "enrol", "root"} {
		o := run("keys", "revoke", keyIn(t, only, role, keys.InUse).Thumbprint, "--yes", "--keys", dir)
		if o.code != cli.ExitFailed || !strings.Contains(o.err, "replace it with `keys rotate") {
			t.Errorf("revoking the only %s key: got %+v", role, o)
		}
	}
	mustRun(t, "keys", "rotate", "publisher", "--keys", dir)
	inUse := keyIn(t, shownKeys(t, dir), "publisher", keys.InUse).Thumbprint
	o := run("keys", "revoke", inUse, "--keys", dir)
	if o.code != cli.ExitUsage || !strings.Contains(o.err, "is in use as publisher key") ||
		!strings.Contains(o.err, "keys rotate publisher --drop-old") || !strings.Contains(o.err, "--yes") {
		t.Errorf("without a terminal: got %+v, want a request for confirmation", o)
	}
	mustRun(t, "keys", "revoke", inUse, "--yes", "--keys", dir)
	if got := keyIn(t, shownKeys(t, dir), "publisher", keys.NotListed).Thumbprint; got != inUse {
		t.Errorf("key %s is not listed, want the revoked key %s", got, inUse)
	}
}

func TestRotateRevokesReplacedKeys(t *testing.T) {
	dir := keyFolder(t)
	first := keyIn(t, shownKeys(t, dir), "publisher", keys.InUse).Thumbprint
	mustRun(t, "keys", "rotate", "publisher", "--keys", dir)
	if got := shownKeys(t, dir); len(got.Revoked) != 0 || len(got.Publishers) != 2 {
		t.Errorf("after the first rotation: got revoked keys %v and listed keys %v", got.Revoked, got.Publishers)
	}
	mustRun(t, "keys", "rotate", "publisher", "--keys", dir)
	if got := shownKeys(t, dir); !slices.Equal(got.Revoked, []string{first}) || slices.Contains(got.Publishers, first) {
		t.Errorf("after the second rotation: got revoked keys %v and listed keys %v", got.Revoked, got.Publishers)
	}
	mustRun(t, "keys", "rotate", "publisher", "--drop-old", "--keys", dir)
	if got := shownKeys(t, dir); len(got.Revoked) != 3 || len(got.Publishers) != 1 {
		t.Errorf("after --drop-old: got revoked keys %v and listed keys %v", got.Revoked, got.Publishers)
	}
	root := keyIn(t, shownKeys(t, dir), "root", keys.InUse).Thumbprint
	mustRun(t, "keys", "rotate", "root", "--keys", dir)
	if got := shownKeys(t, dir); !slices.Contains(got.Revoked, root) {
		t.Errorf("the revoked keys %v do not contain the former root key", got.Revoked)
	}
	mustRun(t, "keys", "rotate", "enroll", "--drop-old", "--revoke=false", "--keys", dir)
	if got := shownKeys(t, dir); len(got.Revoked) != 4 || len(got.Enrollers) != 1 {
		t.Errorf("after --revoke=false: got revoked keys %v and listed keys %v", got.Revoked, got.Enrollers)
	}
}

func TestKeysShowPrintsTheStateOfEachKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	mustRun(t, "keys", "init", "--keys", dir, "--root-keys", "2", "--threshold", "2")
	mustRun(t, "keys", "rotate", "publisher", "--keys", dir)
	mustRun(t, "keys", "rotate", "token", "--keys", dir)
	// The threshold is two, so one root key signs only a draft.
	mustRun(t, "keys", "rotate", "enroll", "--keys", dir, "--root-key", filepath.Join(dir, "root.key"))
	shown := shownKeys(t, dir)
	for _, k := range []struct {
		role  string
		state keys.State
	}{{"publisher", keys.InUse}, {"publisher", keys.Accepted}, {"enrol", keys.InUse}, {"enrol", keys.Next},
		{"token", keys.InUse}, {"token", keys.Accepted}} {
		if key := keyIn(t, shown, k.role, k.state); k.state == keys.Accepted && k.role == "publisher" &&
			(key.AcceptedUntil == nil || !key.AcceptedUntil.Equal(shown.Expires)) {
			t.Errorf("got %+v, want a key that is accepted until the root expires", key)
		}
	}
	out := mustRun(t, "keys", "show", "--keys", dir)
	for _, want := range []string{"in use", "next: ", "still accepted until the next rotation"} {
		if !strings.Contains(out, want) {
			t.Errorf("output does not contain %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "EXPIRED") {
		t.Errorf("output reports an expired root of trust:\n%s", out)
	}
	mustRun(t, "keys", "rotate", "--validity=1ns", "--keys", dir)
	if out := mustRun(t, "keys", "show", "--keys", dir); !strings.Contains(out, "EXPIRED") ||
		!strings.Contains(out, "keys rotate") {
		t.Errorf("output does not report the expired root of trust:\n%s", out)
	}
	if shown := shownKeys(t, dir); !shown.Expired ||
		len(slices.DeleteFunc(shown.Keys, func(k keys.Key) bool { return k.State != keys.Expired })) != 5 {
		t.Errorf("got %+v, want 5 expired keys", shown)
	}
}

func TestRotateTokenAcceptsThePreviousKey(t *testing.T) {
	dir := keyFolder(t)
	folder := keys.Folder{Dir: dir}
	enrollment := func() func() error {
		secret, err := folder.TokenSecrets()
		if err != nil {
			t.Fatal(err)
		}
		token, err := secret.Issue("berlin", time.Now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		public, errKey := trust.EncodePublicKey(&key.PublicKey)
		proof, errProof := token.Prove("berlin", &key.PublicKey)
		if err := errors.Join(errKey, errProof); err != nil {
			t.Fatal(err)
		}
		return func() error {
			secrets, err := folder.TokenSecrets()
			if err != nil {
				t.Fatal(err)
			}
			return secrets.Check(trust.Kyma{Name: "berlin"}, "berlin",
				trust.Enrollment{PublicKey: public, Proof: proof, TokenExpires: token.Expires.Unix()}, time.Now())
		}
	}
	first := enrollment()
	mustRun(t, "keys", "rotate", "token", "--keys", dir)
	second := enrollment()
	if first() != nil || second() != nil {
		t.Errorf("after one rotation: got %v for the first token and %v for the second, want both accepted", first(),
			second())
	}
	mustRun(t, "keys", "rotate", "token", "--keys", dir)
	if first() == nil || second() != nil {
		t.Errorf("after two rotations: got %v for the first token and %v for the second, want only the second accepted",
			first(), second())
	}
	mustRun(t, "keys", "rotate", "token", "--drop-old", "--keys", dir)
	if second() == nil {
		t.Error("a token of a dropped key is accepted")
	}
	if version := shownKeys(t, dir).Version; version != 1 {
		t.Errorf("got root version %d, want 1", version)
	}
	if o := run("keys", "rotate", "token", "--public-key", "x", "--keys", dir); o.code != cli.ExitUsage ||
		!strings.Contains(o.err, "--public-key") {
		t.Errorf("rotate token with --public-key: got %+v, want a usage error", o)
	}
}

func TestPublishRefusesKeysThatAgentsRefuse(t *testing.T) {
	from, layout, dir := fleetFolder(t), filepath.Join(t.TempDir(), "layout"), keyFolder(t)
	backup := filepath.Join(t.TempDir(), "backup")
	if err := os.CopyFS(backup, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	publishTo(t, from, layout, dir)
	mustRun(t, "keys", "rotate", "publisher", "--drop-old", "--keys", dir)
	publishTo(t, from, layout, dir)
	commands := func(keys string) [][]string {
		return [][]string{
			{"publish", "--from", from, "--to", "oci-layout:" + layout, "--keys", keys},
			{
				"export", "r-1", "--from", "oci-layout:" + layout, "--keys", keys, "-o",
				filepath.Join(t.TempDir(), "file.tar"),
			},
		}
	}
	for _, command := range commands(backup) {
		o := run(command...)
		if o.code != cli.ExitRefused || !strings.Contains(o.err, "outdated") ||
			!strings.Contains(o.err, "trust:root-2") {
			t.Errorf("%s with an older key folder: got %+v", command[0], o)
		}
	}
	mustRun(t, "keys", "rotate", "--validity=1ns", "--keys", dir)
	for _, command := range commands(dir) {
		o := run(command...)
		if o.code != cli.ExitRefused || !strings.Contains(o.err, "RootExpired") ||
			!strings.Contains(o.err, "keys rotate") {
			t.Errorf("%s with an expired root: got %+v", command[0], o)
		}
	}
	mustRun(t, "keys", "rotate", "--keys", dir)
	publishTo(t, from, layout, dir)
}

func TestKeysRefuseToCreateAnExpiredRoot(t *testing.T) {
	dir := keyFolder(t)
	for _, validity := range []string{"-1h", "0s"} {
		if o := run("keys", "rotate", "--keys", dir, "--validity", validity); o.code != cli.ExitUsage ||
			!strings.Contains(o.err, "must be ") {
			t.Errorf("--validity %s: got %+v, want a usage error", validity, o)
		}
	}
	if got := shownKeys(t, dir).Version; got != 1 {
		t.Errorf("got root version %d, want 1", got)
	}
}

// A script passes an empty version if its variable is not set.
func TestEmptyVersionKeepsTheMinimumVersion(t *testing.T) {
	dir := keyFolder(t)
	const component = "kyma-project.io/module/keda"
	mustRun(t, "keys", "floor", component, "1.8.0", "--keys", dir)
	if o := run("keys", "floor", component, "", "--keys", dir); o.code != cli.ExitUsage ||
		!strings.Contains(o.err, "argument 2 is empty") {
		t.Errorf("got %+v, want a usage error", o)
	}
	if out := mustRun(t, "keys", "show", "--keys", dir); !strings.Contains(out, "minimum version: "+component+" 1.8.0") {
		t.Errorf("got %s, want the minimum version", out)
	}
}
