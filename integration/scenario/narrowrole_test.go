package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// An earlier release stored content in Secrets with digests in their names, and its Role allowed access to all
// Secrets in kyma-system. With the role of the current chart, the agent stores the content in Secrets with fixed
// names.
func TestReleasedAgentMovesToTheRestrictedRole(t *testing.T) {
	suite.Long(t) // the short suite runs TestContentStoreNeedsOnlyTheChartsRole
	today, err := fleet.Build()
	must(t, err)
	for _, past := range releases(t) {
		t.Run(past.version, func(t *testing.T) { checkMoveToSmallRole(t, past, today) })
	}
}

func checkMoveToSmallRole(t *testing.T, past supported, today fleet.Binaries) {
	t.Helper()
	ctx := t.Context()
	released := programsAt(t, past.commit)
	charts := filepath.Join(t.TempDir(), "charts")
	must(t, fleet.ChartsAt(ctx, past.commit, charts))
	f := newFleet(t, fleet.Options{
		AgentRights: []string{"agent.yaml", "module-account.yaml"}, AgentFlags: []string{"--module-service-account=modules"},
	})
	f.Use(fleet.Binaries{Agent: released.Agent})
	r, err := f.AddRuntime(ctx, "berlin", "regular", "scaler")
	must(t, err)
	grant(t, r, "modules", "system:serviceaccount:kyma-system:modules", writing("*", "*"))
	applyFile(t, r.API, filepath.Join(charts, "skr-agent", "rbac", "agent.yaml"))
	must(t, r.UntilState(ctx, "scaler", "1.7.0", v1beta2.StateReady))
	former, slots := contentSecrets(t, r)
	if len(former) == 0 || len(slots) > 0 {
		t.Fatalf("release %s stored content in %v and in slots %v", past.version, former, slots)
	}

	t.Log("the agent and its role are upgraded")
	must(t, r.Agent().Stop())
	must(t, fleet.ApplyChartFile(ctx, r.API, "skr-agent", "rbac", "agent.yaml"))
	must(t, fleet.ApplyChartFile(ctx, r.API, "skr-agent", "policy", "protection.yaml"))
	f.Use(fleet.Binaries{Agent: today.Agent})
	must(t, r.StartAgent())
	untilDriftIsReverted(t, r)
	must(t, r.UntilState(ctx, "scaler", "1.7.0", v1beta2.StateReady))
	kept, slots := contentSecrets(t, r)
	if len(slots) == 0 || len(kept) < len(former) {
		t.Errorf("content is in slots %v; the former Secrets %v became %v", slots, former, kept)
	}

	t.Log("the guide's command removes the former Secrets")
	s := newShell(t, t.TempDir(), today)
	s.env = append(s.env, "KUBECONFIG="+r.Kubeconfig())
	blocks := guide(t, "upgrade-and-skew.md")["former-content"]
	if len(blocks) != 1 {
		t.Fatalf("docs/guides/upgrade-and-skew.md has %d blocks former-content, want 1", len(blocks))
	}
	s.run(blocks[0].Script)
	if kept, slots = contentSecrets(t, r); len(kept) > 0 || len(slots) == 0 {
		t.Errorf("after the guide's command, content is in %v and in slots %v", kept, slots)
	}
	untilDriftIsReverted(t, r)
	promote(t, f, "1.8.0")
	must(t, r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
}

// contentSecrets returns the names of the Secrets that contain module content. byDigest lists the names that contain a
// digest, and slots lists the fixed names.
func contentSecrets(t *testing.T, r *fleet.Runtime) (byDigest, slots []string) {
	t.Helper()
	var all corev1.SecretList
	must(t, r.API.List(t.Context(), &all, client.InNamespace(v1beta2.RuntimeNamespace),
		client.HasLabels{v1beta2.LabelContent}))
	for _, secret := range all.Items {
		if strings.HasPrefix(secret.Name, "kyma-pull-content-slot-") {
			slots = append(slots, secret.Name)
		} else {
			byDigest = append(byDigest, secret.Name)
		}
	}
	return byDigest, slots
}

// untilDriftIsReverted deletes an object of module scaler and waits until the agent has created it again.
func untilDriftIsReverted(t *testing.T, r *fleet.Runtime) {
	t.Helper()
	before, err := settings(t.Context(), r)
	must(t, err)
	must(t, r.API.Delete(t.Context(), before))
	until(t, 2*time.Minute, "the deleted object of module scaler exists again", func() (bool, string) {
		after, err := settings(t.Context(), r)
		return err == nil && after.GetUID() != before.GetUID(), fmt.Sprint(err)
	})
}

// applyFile applies the objects of a YAML file.
func applyFile(t *testing.T, c client.Client, path string) {
	t.Helper()
	file, err := os.Open(path)
	must(t, err)
	defer func() { _ = file.Close() }()
	decoder := utilyaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); err != nil {
			return
		}
		must(t, c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("fleet"),
			client.ForceOwnership))
	}
}
