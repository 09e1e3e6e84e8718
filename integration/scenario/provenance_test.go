package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// chain is the output of `skr-agent provenance -o json`.
type chain struct {
	Manifest string `json:"manifest"`
	bundle.Origin
}

func TestProvenanceLeadsFromObjectToPublisherKey(t *testing.T) {
	ctx := t.Context()
	f := shareFleet(t)
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	binaries := f.Binaries()
	// The publisher replaces the bundle when the runtime enrolls.
	untilQuiet(t, f)
	provenance := func(want int, args ...string) string {
		t.Helper()
		output, code := fleet.Run(ctx, binaries.Agent,
			append([]string{"provenance", "--kubeconfig", r.Kubeconfig()}, args...)...)
		if code != want {
			t.Fatalf("provenance %v: exit code %d, want %d\n%s", args, code, want, output)
		}
		return output
	}
	fetched, err := r.Desired(ctx)
	must(t, err)
	until(t, 20*time.Second, "the runtime reports the newest bundle", func() (bool, string) {
		record, err := r.Record(ctx)
		if err != nil || record.Status.Runtime == nil || record.Status.Runtime.Observed == nil {
			return false, fmt.Sprint(err)
		}
		return record.Status.Runtime.Observed.Digest == fetched.Descriptor.Digest.String(),
			record.Status.Runtime.Observed.Digest
	})

	var found chain
	t.Run("provenance leads from object to publisher key", func(t *testing.T) {
		for _, object := range []string{"configmap/scaler-settings", "ConfigMap/scaler-settings", "cm/scaler-settings",
			"deployments.apps/scaler-manager", "deploy/scaler-manager"} {
			must(t, json.Unmarshal([]byte(provenance(0, object, "-n", v1beta2.RuntimeNamespace, "-o", "json")), &found))
			b := found.Bundle
			if found.Module != f.Own("scaler") || found.Version != "1.7.0" || found.Component == "" ||
				len(found.Content) == 0 || !strings.HasPrefix(found.Manifest, v1beta2.RuntimeNamespace+"/") ||
				b.Digest != fetched.Descriptor.Digest || b.Runtime != r.ID || b.Sequence == 0 || b.RootVersion != 1 ||
				b.PublisherKey == "" {
				t.Errorf("unexpected provenance of %s: %+v", object, found)
			}
		}
	})
	t.Run("provenance reads no private key", func(t *testing.T) {
		const reader = "provenance-reader"
		must(t, grantProvenance(ctx, r, reader))
		as := []string{"configmap/scaler-settings", "-n", v1beta2.RuntimeNamespace, "--as", reader}
		must(t, json.Unmarshal([]byte(provenance(0, append(as, "-o", "json")...)), &found))
		if found.Bundle.Digest != fetched.Descriptor.Digest {
			t.Errorf("unexpected provenance: %+v", found)
		}
		provenance(0, append(as, "--trust", filepath.Join(f.Keys(), "root.json"))...)
		other := filepath.Join(t.TempDir(), "other")
		runProgram(t, 0, binaries.Publisher, "keys", "init", "--keys", other)
		if output := provenance(3, append(as, "--trust", filepath.Join(other, "root.json"))...); !strings.Contains(
			output, "does not list key") {
			t.Errorf("unexpected provenance output:\n%s", output)
		}
	})
	t.Run("publisher and runtime report equal origins", func(t *testing.T) {
		output, err := f.Why(ctx, r.ID, f.Own("scaler"), "--location", f.Location(), "--trust",
			filepath.Join(f.Keys(), "root.json"), "-o", "json")
		must(t, err)
		var got struct {
			Origins []bundle.Origin `json:"origins"`
		}
		if err := json.Unmarshal([]byte(output), &got); err != nil || len(got.Origins) != 1 {
			t.Fatalf("%v\n%s", err, output)
		}
		if o := got.Origins[0]; o.Bundle.Digest != found.Bundle.Digest ||
			o.Bundle.PublisherKey != found.Bundle.PublisherKey || o.Component != found.Component ||
			o.Content[0] != found.Content[0] {
			t.Errorf("the publisher reports %+v, the runtime %+v", o, found.Origin)
		}
	})
	t.Run("object outside all modules has no provenance", func(t *testing.T) {
		own := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: v1beta2.RuntimeNamespace, Name: "own", Annotations: map[string]string{
				v1beta2.AnnotationOwnedBy: found.Manifest,
			},
		}}
		must(t, r.API.Create(ctx, own))
		if output := provenance(1, "configmap/own", "-n", v1beta2.RuntimeNamespace); !strings.Contains(output,
			"is not in the inventory of a Manifest") {
			t.Errorf("unexpected provenance output:\n%s", output)
		}
		provenance(1, "configmap/nothing", "-n", v1beta2.RuntimeNamespace)
		provenance(2, "configmap")
	})
	t.Run("tampered bundle has no provenance", func(t *testing.T) {
		r.Agent().Stop()
		state := &corev1.Secret{}
		must(t, r.API.Get(ctx, inKyma("skr-agent-state"), state))
		before := state.DeepCopy()
		state.Data["manifest.json"] = []byte(strings.Replace(string(state.Data["manifest.json"]), `"size":`, `"size":1`,
			1))
		must(t, r.API.Patch(ctx, state, client.MergeFrom(before)))
		if output := provenance(3, "configmap/scaler-settings", "-n",
			v1beta2.RuntimeNamespace); !strings.Contains(output, "refused (") {
			t.Errorf("unexpected provenance output:\n%s", output)
		}
	})
}

// grantProvenance permits a user to read exactly the objects that `skr-agent provenance` needs.
func grantProvenance(ctx context.Context, r *fleet.Runtime, user string) error {
	var secrets corev1.SecretList
	err := r.API.List(ctx, &secrets, client.InNamespace(v1beta2.RuntimeNamespace), client.HasLabels{
		v1beta2.LabelContent,
	})
	if err != nil {
		return err
	}
	names := []string{"skr-agent-identity", "skr-agent-state"}
	for _, s := range secrets.Items {
		names = append(names, s.Name)
	}
	meta := metav1.ObjectMeta{Name: user, Namespace: v1beta2.RuntimeNamespace}
	return errors.Join(
		r.API.Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: names, Verbs: []string{"get"}},
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}},
			{APIGroups: []string{v1beta2.Group}, Resources: []string{"manifests"}, Verbs: []string{"list"}},
		}}),
		r.API.Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		}))
}
