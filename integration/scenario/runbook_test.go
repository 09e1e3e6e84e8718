package scenario

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/guides"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// runbook returns the shell blocks in docs/runbooks/NAME.
func runbook(t *testing.T, name string) []guides.Block {
	t.Helper()
	blocks, err := guides.Read(filepath.Join(checkout, "docs", "runbooks", name))
	must(t, err)
	return blocks
}

// shell runs scripts in a folder with the programs in $PATH.
type shell struct {
	t   *testing.T
	dir string
	env []string
	// replaced maps names in the runbook to names in the test.
	replaced *strings.Replacer
}

func newShell(t *testing.T, dir string, binaries fleet.Binaries, replaced ...string) shell {
	t.Helper()
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skip("kubectl is not installed")
	}
	return newPlainShell(t, dir, binaries, replaced...)
}

// newPlainShell returns a shell for scripts without kubectl.
func newPlainShell(t *testing.T, dir string, binaries fleet.Binaries, replaced ...string) shell {
	t.Helper()
	path := t.TempDir()
	must(t, os.Symlink(binaries.Publisher, filepath.Join(path, "kcp-publisher")))
	must(t, os.Symlink(binaries.Agent, filepath.Join(path, "skr-agent")))
	return shell{t, dir, append(os.Environ(), "PATH="+path+":"+os.Getenv("PATH")), strings.NewReplacer(replaced...)}
}

func (s shell) try(script string) (string, error) {
	cmd := exec.CommandContext(s.t.Context(), "bash", "-euo", "pipefail", "-c", s.replaced.Replace(script))
	cmd.Dir, cmd.Env = s.dir, s.env
	output, err := cmd.CombinedOutput()
	return string(output), err
}

func (s shell) run(script string) string {
	s.t.Helper()
	output, err := s.try(script)
	if err != nil {
		s.t.Fatalf("%s\n%v\n%s", script, err, output)
	}
	return output
}

// The test follows docs/runbooks/stolen-keys.md for every key in a fleet, and then attacks the fleet with each stolen
// key.
func TestRunbookForStolenKeysWorks(t *testing.T) {
	suite.Long(t) // the short suite runs TestRunbookForStolenKeysOutsideTheFleetWorks
	ctx := t.Context()
	f := newFleet(t, fleet.Options{Tokens: true, PublisherFlags: []string{"--set", "keys-poll-interval=1s"}})
	r := runtimeWith(t, f, "berlin", map[string]string{"scaler": "1.7.0"})
	s := newShell(t, f.Dir, f.Binaries(), "registry.example/fleet", f.Location())
	for where, name := range map[client.Client]client.ObjectKey{
		f.Control: {Namespace: sample.Namespace, Name: "kcp-publisher"}, r.API: inKyma("skr-agent"),
	} {
		labels := map[string]string{"app": name.Name}
		must(t, where.Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
			Spec: appsv1.DeploymentSpec{Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
						Containers: []corev1.Container{{Name: "program", Image: "program"}},
					},
				}},
		}))
	}
	must(t, os.WriteFile(f.Generations(), nil, 0o600))
	stolen := filepath.Join(f.Dir, "stolen")
	must(t, os.CopyFS(stolen, os.DirFS(f.Keys())))
	agent := agentKey(t, r)
	sections := []string{}
	for _, step := range runbook(t, "stolen-keys.md") {
		if step.Others {
			continue
		}
		if !slices.Contains(sections, step.Section) {
			sections = append(sections, step.Section)
		}
		if step.Check {
			checkStep(t, s, step)
			checkKeyIsUseless(t, f, r, s, step.Section, agent)
			continue
		}
		s.run(step.Script)
		if strings.Contains(step.Script, "restart deployment kcp-publisher") {
			f.Publisher().Stop()
			must(t, f.StartPublisher())
		}
	}
	if want := "[ Publisher key Enrollment key Token key Agent's key Registry password Root key]"; fmt.Sprint(
		sections) != want {
		t.Errorf("followed sections %v, want %s", sections, want)
	}
	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) { spec.Channel = "fast" }))
	must(t, r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
	t.Run("publisher refuses an older key folder", func(t *testing.T) { olderBackup(t, f, r, stolen) })
}

// olderBackup replaces the publisher's key folder with an older backup, checks the result, and then restores the
// current folder.
func olderBackup(t *testing.T, f *fleet.Fleet, r *fleet.Runtime, backup string) {
	current := filepath.Join(f.Dir, "current")
	must(t, os.CopyFS(current, os.DirFS(f.Keys())))
	give := func(from string) {
		for _, name := range []string{"root.json", "publisher.key", "enrol.key"} {
			data, err := os.ReadFile(filepath.Join(from, name))
			must(t, err)
			must(t, os.WriteFile(filepath.Join(f.Keys(), name), data, 0o600))
		}
	}
	expect := func(status metav1.ConditionStatus, text string) {
		until(t, time.Minute, fmt.Sprintf("the Kyma is Ready=%s with %q", status, text), func() (bool, string) {
			ready := conditionOf(t, r, v1beta2.ConditionReady)
			return ready.Status == status && strings.Contains(ready.Message, text), ready.Message
		})
	}
	untilQuiet(t, f)
	before := publishedDigest(t, r)
	give(backup)
	expect(metav1.ConditionFalse, fmt.Sprintf("trust:root-%d is newer", rootIn(t, current).Version))
	must(t, r.EditKyma(t.Context(), func(spec *v1beta2.KymaSpec) {
		spec.Modules = append(spec.Modules, managed("mailer"))
	}))
	expect(metav1.ConditionFalse, "outdated")
	if after := publishedDigest(t, r); after != before {
		t.Errorf("bundle %s was published with the older keys after %s", after, before)
	}
	give(current) // the publisher loads the current keys without a restart
	expect(metav1.ConditionTrue, "")
}

func publishedDigest(t *testing.T, r *fleet.Runtime) string {
	t.Helper()
	record, err := r.Record(t.Context())
	must(t, err)
	return record.Status.Runtime.Published.Digest
}

func rootIn(t *testing.T, keys string) trust.Root {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(keys, "root.json"))
	must(t, err)
	root, err := trust.ParseRoot(data)
	must(t, err)
	return root
}

// checkStep repeats a block until its commands succeed, because some changes take effect with a delay.
func checkStep(t *testing.T, s shell, step guides.Block) {
	t.Helper()
	until(t, 2*time.Minute, "the check of "+step.Section+" succeeds", func() (bool, string) {
		output, err := s.try(step.Script)
		return err == nil, fmt.Sprint(err, "\n", output)
	})
}

func agentKey(t *testing.T, r *fleet.Runtime) string {
	t.Helper()
	record, err := r.Record(t.Context())
	must(t, err)
	return record.Status.Runtime.Key.Thumbprint
}

// checkKeyIsUseless checks that the stolen key is useless after the steps in its section.
func checkKeyIsUseless(t *testing.T, f *fleet.Fleet, r *fleet.Runtime, s shell, section, agent string) {
	t.Helper()
	switch section {
	case "Publisher key", "Enrollment key", "Root key":
		untilRoot(t, r, rootOf(t, f).Version)
		var shown struct{ Revoked, Publishers, Enrollers, Root []string }
		must(t, json.Unmarshal([]byte(s.run("kcp-publisher keys show --keys keys -o json")), &shown))
		if len(shown.Publishers) != 1 || len(shown.Revoked) == 0 {
			t.Errorf("%s: unexpected keys %+v", section, shown)
		}
		var before struct{ Publishers, Enrollers, Root []string }
		must(t, json.Unmarshal([]byte(s.run("kcp-publisher keys show --keys stolen -o json")), &before))
		was := map[string][]string{"Publisher key": before.Publishers, "Enrollment key": before.Enrollers,
			"Root key": before.Root}[section]
		if !slices.Contains(shown.Revoked, was[0]) {
			t.Errorf("%s: key %s is not listed as revoked: %v", section, was[0], shown.Revoked)
		}
		// A publisher with the stolen key folder must fail, too.
		output, err := s.try(
			"mkdir -p empty && kcp-publisher publish --from empty --to registry.example/fleet --keys stolen " +
				"--registry-config publisher.json --registry-ca ca.pem")
		if err == nil || !strings.Contains(output, "outdated") {
			t.Errorf("%s: publishing with the stolen folder did not fail: %v\n%s", section, err, output)
		}
	case "Token key":
		// The stolen secret must not grant access to the repositories of berlin or the publisher.
		for _, user := range []string{"berlin", "_publisher"} {
			output, err := s.try("kcp-publisher registry credentials " + user +
				" --keys stolen --location registry.example/fleet > stolen.json; " +
				"skr-agent verify registry.example/fleet --trust keys/root.json --runtime berlin --registry-config " +
				"stolen.json --registry-ca ca.pem")
			if err == nil || !strings.Contains(output, "401") {
				t.Errorf("%s is not refused with the stolen token key: %v\n%s", user, err, output)
			}
		}
	case "Agent's key":
		until(t, time.Minute, "the agent has a new key", func() (bool, string) {
			key := agentKey(t, r)
			return key != agent, key
		})
	case "Registry password":
		s.run("kcp-publisher registry credentials berlin --keys keys --location registry.example/fleet > first.json")
		output, err := s.try(
			"skr-agent verify registry.example/fleet --trust keys/root.json --runtime berlin --registry-config " +
				"first.json --registry-ca ca.pem")
		if err == nil || !strings.Contains(output, "401") {
			t.Errorf("the first password is not refused: %v\n%s", err, output)
		}
	}
}

// The test follows the runbook's steps for keys that are not part of a fleet, and the steps that start a new fleet.
func TestRunbookForStolenKeysOutsideTheFleetWorks(t *testing.T) {
	runInQueue(t)
	binaries, err := fleet.Build()
	must(t, err)
	dir := t.TempDir()
	s := newShell(t, dir, binaries)
	must(t, os.WriteFile(filepath.Join(dir, "ca.pem"), selfSignedCA(t), 0o600))
	for _, name := range []string{"old-release.pem", "new-release.pem"} {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		must(t, err)
		der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}),
			0o600))
	}
	s.run("kcp-publisher keys init --keys keys && kcp-publisher keys release example.org/ --public-key " +
		"old-release.pem --keys keys")
	var shown struct {
		Keys []struct{ Role, Thumbprint string }
	}
	must(t, json.Unmarshal([]byte(s.run("kcp-publisher keys show --keys keys -o json")), &shown))
	for _, key := range shown.Keys {
		if strings.HasPrefix(key.Role, "release:") {
			s.env = append(s.env, "OLD_RELEASE_KEY="+key.Thumbprint)
		}
	}
	ran := 0
	for _, step := range runbook(t, "stolen-keys.md") {
		if step.Others {
			s.run(step.Script)
			ran++
		}
	}
	if ran != 3 {
		t.Errorf("ran an unexpected number of steps: %d", ran)
	}
}

func selfSignedCA(t *testing.T) []byte {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestRevokingAKeyInUseAsksForConfirmation(t *testing.T) {
	runInQueue(t)
	if _, err := exec.LookPath("script"); err != nil {
		t.Skip("script(1), which provides a terminal, is not installed")
	}
	binaries, err := fleet.Build()
	must(t, err)
	keys := filepath.Join(t.TempDir(), "keys")
	for _, args := range [][]string{{"keys", "init"}, {"keys", "rotate", "publisher"}} {
		runProgram(t, 0, binaries.Publisher, append(args, "--keys", keys)...)
	}
	var shown struct {
		Version int64
		Revoked []string
		Keys    []struct{ Role, State, Thumbprint string }
	}
	show := func() {
		t.Helper()
		must(t, json.Unmarshal([]byte(runProgram(t, 0, binaries.Publisher, "keys", "show", "--keys", keys, "-o", "json")),
			&shown))
	}
	show()
	inUse := ""
	for _, key := range shown.Keys {
		if key.Role == "publisher" && key.State == "InUse" {
			inUse = key.Thumbprint
		}
	}
	answer := func(typed string) (string, int) {
		cmd := exec.CommandContext(t.Context(), "script", "-qec",
			fmt.Sprintf("%s keys revoke %s --keys %s", binaries.Publisher, inUse, keys), "/dev/null")
		cmd.Stdin = strings.NewReader(typed + "\n")
		output, _ := cmd.CombinedOutput()
		return string(output), cmd.ProcessState.ExitCode()
	}
	if output, code := answer("no"); code != 2 || !strings.Contains(output, "is in use as publisher key") {
		t.Errorf("revoke with the answer no: exit code %d\n%s", code, output)
	}
	if show(); shown.Version != 2 || len(shown.Revoked) != 0 {
		t.Errorf("the root of trust changed despite the answer no: %+v", shown)
	}
	if output, code := answer("yes"); code != 0 {
		t.Errorf("revoke with the answer yes: exit code %d\n%s", code, output)
	}
	if show(); shown.Version != 3 || !slices.Contains(shown.Revoked, inUse) {
		t.Errorf("the key is not revoked despite the answer yes: %+v", shown)
	}
}
