package scenario

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

func changeKeys(t *testing.T, f *fleet.Fleet, args ...string) {
	t.Helper()
	if output, code := fleet.Run(t.Context(), f.Binaries().Publisher,
		append(append([]string{"keys"}, args...), "--keys", f.Keys())...); code != 0 {
		t.Fatalf("kcp-publisher keys %v: exit code %d\n%s", args, code, output)
	}
}

// untilRoot waits until the runtime has applied a bundle that belongs to this version of the root.
func untilRoot(t *testing.T, r *fleet.Runtime, version int64) {
	t.Helper()
	until(t, 60*time.Second, fmt.Sprintf("%s applies root version %d", r.ID, version), func() (bool, string) {
		statement, err := inForce(t, r)
		return err == nil && statement.Predicate.RootVersion == version,
			fmt.Sprintf("%v, version %d", err, statement.Predicate.RootVersion)
	})
}

// inForce returns the verified signed statement for the bundle that the agent applied.
func inForce(t *testing.T, r *fleet.Runtime) (bundle.Statement, error) {
	t.Helper()
	var secret corev1.Secret
	if err := r.API.Get(t.Context(), client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: "skr-agent-state"},
		&secret); err != nil {
		return bundle.Statement{}, err
	}
	root, err := trust.ParseRoot(secret.Data["bundle-root.json"])
	if err != nil {
		return bundle.Statement{}, err
	}
	verified, err := bundle.Adopt(bundle.Fetched{
		Descriptor: ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest}, Bytes: secret.Data["manifest.json"],
	}, r.ID, root)
	return verified.Statement, err
}

func TestKeysRotateWithoutRestart(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{PublisherFlags: []string{"--set", "keys-poll-interval=1s"}})
	r := runtimeWith(t, f, "berlin", map[string]string{"scaler": "1.7.0"})
	stolen := publisherKey(t, f)

	changeKeys(t, f, "rotate", "publisher")
	untilRoot(t, r, 2)
	if record, err := r.Record(ctx); err != nil || strings.Contains(fmt.Sprint(record.Status.Conditions), "refused") {
		t.Errorf("a regular key rotation caused a refusal: %v, %v", err, record.Status.Conditions)
	}
	changeKeys(t, f, "rotate", "root")
	changeKeys(t, f, "rotate", "enroll", "--root-key", filepath.Join(f.Keys(), "root-v3.key"))
	changeKeys(t, f, "revoke", thumbprintOf(t, stolen), "--root-key", filepath.Join(f.Keys(), "root-v3.key"))
	untilRoot(t, r, 5)
	promote(t, f, "1.8.0")
	must(t, r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
	untilQuiet(t, f)
	f.Publisher().Stop()
	honest, err := r.Desired(ctx)
	must(t, err)

	theft := forged(t, f, r, stolen, func(*bundle.Predicate) {})
	hidden := func(w http.ResponseWriter, request *http.Request) bool {
		if strings.Contains(request.URL.Path, "/trust/") {
			http.Error(w, `{"errors":[{"code":"MANIFEST_UNKNOWN"}]}`, http.StatusNotFound)
			return true
		}
		return false
	}
	t.Run("revoked key is refused after a restart with hidden roots", func(t *testing.T) {
		before := objectVersions(t, r)
		f.Registry.Intercept(hidden)
		defer f.Registry.Intercept(nil)
		r.Agent().Kill()
		must(t, r.StartAgent())
		must(t, r.Put(ctx, theft))
		must(t, r.UntilAccepted(ctx, metav1.ConditionFalse, string(refusal.UnknownKey)))
		if after := objectVersions(t, r); after != before {
			t.Errorf("objects of the runtime changed: %s to %s", before, after)
		}
		must(t, r.Put(ctx, bundle.NewBlob(ocispec.MediaTypeImageManifest, honest.Bytes)))
		must(t, r.UntilAccepted(ctx, metav1.ConditionTrue, "Accepted"))
	})
	t.Run("forged root is refused and later bundles are accepted", func(t *testing.T) {
		forgedRoot(t, f, 6)
		must(t, r.UntilAccepted(ctx, metav1.ConditionFalse, string(refusal.BadRoot)))
		promoted := forged(t, f, r, publisherKey(t, f), func(*bundle.Predicate) {})
		must(t, r.Put(ctx, promoted))
		until(t, 30*time.Second, "the agent applies the bundle", func() (bool, string) {
			statement, err := inForce(t, r)
			return err == nil && statement.Predicate.Sequence > sequenceOf(t, f, r, honest), fmt.Sprint(err)
		})
	})
}

func sequenceOf(t *testing.T, f *fleet.Fleet, r *fleet.Runtime, fetched bundle.Fetched) int64 {
	t.Helper()
	verified, err := bundle.Adopt(fetched, r.ID, rootOf(t, f))
	must(t, err)
	return verified.Statement.Predicate.Sequence
}

func rootOf(t *testing.T, f *fleet.Fleet) trust.Root {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(f.Keys(), "root.json"))
	must(t, err)
	root, err := trust.ParseRoot(data)
	must(t, err)
	return root
}

func thumbprintOf(t *testing.T, signer trust.Signer) string {
	t.Helper()
	public, err := signer.PublicKey()
	must(t, err)
	thumbprint, err := trust.Thumbprint(public)
	must(t, err)
	return thumbprint
}

// forgedRoot pushes an attacker's root of trust with the next version number.
func forgedRoot(t *testing.T, f *fleet.Fleet, version int64) {
	t.Helper()
	draft, err := rootOf(t, f).Draft(time.Now().AddDate(1, 0, 0))
	must(t, err)
	attacker, err := trust.GenerateKey()
	must(t, err)
	key, err := trust.LoadSigner(attacker)
	must(t, err)
	public, err := key.PublicKey()
	must(t, err)
	signers, _ := rootOf(t, f).Signers()
	must(t, draft.Remove(trust.RoleRoot, signers...))
	must(t, draft.Add(trust.RoleRoot, public))
	must(t, draft.Add(trust.RolePublisher, public))
	must(t, draft.Sign(key))
	data, err := draft.Bytes()
	must(t, err)
	root, err := trust.ParseRoot(data)
	must(t, err)
	if root.Version != version {
		t.Fatalf("forged root has version %d, want the next version", root.Version)
	}
	must(t, store.PushRoot(t.Context(), f.Place, root))
}

func TestAgentProvesItsIdentity(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{PublisherFlags: []string{"--set", "keys-poll-interval=1s"}})
	r := runtimeWith(t, f, "berlin", map[string]string{"scaler": "1.7.0"})
	until(t, 60*time.Second, "the agent has a certificate", func() (bool, string) {
		statement, err := inForce(t, r)
		if err != nil {
			return false, err.Error()
		}
		_, err = rootOf(t, f).CheckCertificate(statement.Predicate.Certificate, "berlin", time.Now())
		return err == nil, fmt.Sprint(err)
	})
	untilQuiet(t, f)

	// All previous tokens are invalid, so only the certificate can identify the agent.
	f.Publisher().Stop()
	must(t, os.WriteFile(filepath.Join(f.Keys(), "token.key"), fmt.Appendf(nil, "%x\n", rand.Text()+rand.Text()),
		0o600))
	record, err := r.Record(ctx)
	must(t, err)
	key := record.Status.Runtime.Key.Thumbprint
	record.Status = v1beta2.KymaStatus{}
	must(t, f.Control.Status().Update(ctx, record))
	must(t, f.StartPublisher())
	until(t, 60*time.Second, "the control plane identifies the agent after a status loss", func() (bool, string) {
		record, err := r.Record(ctx)
		known := err == nil && record.Status.Runtime != nil && record.Status.Runtime.Key != nil
		return known && record.Status.Runtime.Key.Thumbprint == key && record.Status.State == v1beta2.StateReady,
			fmt.Sprint(err)
	})

	output, err := f.Ask(ctx, "revoke", "berlin")
	if err != nil || !strings.Contains(output, "runtime berlin no longer accepts key "+key) {
		t.Fatalf("revoke: %v\n%s", err, output)
	}
	must(t, r.UntilAccepted(ctx, metav1.ConditionFalse, string(refusal.WrongCluster)))
	until(t, 60*time.Second, "the publisher refuses the agent's reports", func() (bool, string) {
		record, err := r.Record(ctx)
		return err == nil && strings.Contains(fmt.Sprint(record.Status.Conditions), string(refusal.Revoked)),
			fmt.Sprint(err, record.Status.Conditions)
	})
	must(t, r.API.Delete(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: "skr-agent-key"},
	}))
	must(t, r.Enroll(ctx))
	r.Agent().Stop()
	must(t, r.StartAgent())
	must(t, r.UntilAccepted(ctx, metav1.ConditionTrue, "Accepted"))
	promote(t, f, "1.8.0")
	must(t, r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
}
