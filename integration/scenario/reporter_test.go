package scenario

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// reporter is a runtime without an agent. The test has the runtime's key and can send any report.
type reporter struct {
	t      *testing.T
	fleet  *fleet.Fleet
	id     string
	signer trust.Signer
	token  trust.Token
}

func newReporter(t *testing.T, f *fleet.Fleet, id string) *reporter {
	t.Helper()
	r := &reporter{t: t, fleet: f, id: id}
	r.enroll()
	must(t, f.Control.Create(t.Context(), fleet.NewKyma(id, "regular")))
	return r
}

// enroll enrolls the runtime with a new key.
func (r *reporter) enroll() {
	r.t.Helper()
	validity := time.Until(r.token.Expires) + time.Hour
	if r.token.Expires.IsZero() {
		validity = time.Hour
	}
	output, code := fleet.Run(r.t.Context(), r.fleet.Binaries().Publisher, "enroll", r.id, "--keys", r.fleet.Keys(),
		"--location", r.fleet.Location(), "--token-validity", validity.Round(time.Second).String())
	if code != 0 {
		r.t.Fatalf("enroll: exit code %d\n%s", code, output)
	}
	var secret corev1.Secret
	must(r.t, yaml.Unmarshal([]byte(output), &secret))
	var err error
	r.token, err = trust.ParseToken(secret.StringData["token"])
	must(r.t, err)
	key, err := trust.GenerateKey()
	must(r.t, err)
	r.signer, err = trust.LoadSigner(key)
	must(r.t, err)
}

// honestReport returns the report that an agent without modules would send.
func (r *reporter) honestReport() bundle.Report {
	public, err := r.signer.PublicKey()
	must(r.t, err)
	encoded, err := trust.EncodePublicKey(public)
	must(r.t, err)
	proof, err := r.token.Prove(r.id, public)
	must(r.t, err)
	return bundle.Report{
		Runtime: r.id, Fleet: rootOf(r.t, r.fleet).Fleet, Sequence: time.Now().UnixMilli(), Time: time.Now().UTC(),
		AgentVersion: "v1",
		ClusterUID:   r.id, Enrollment: &trust.Enrollment{
			PublicKey: encoded, Proof: proof, TokenExpires: r.token.Expires.Unix(),
		},
		Kyma: &bundle.ReportedKyma{
			Spec: v1beta2.KymaSpec{Channel: "regular"}, Generation: 1, State: v1beta2.StateReady,
		},
	}
}

// pushReport changes an honest report, pushes it, and returns the digest of its manifest.
func (r *reporter) pushReport(change func(*bundle.Report)) digest.Digest {
	r.t.Helper()
	report := r.honestReport()
	change(&report)
	manifest, err := bundle.ComposeReport(report, r.signer)
	must(r.t, err)
	must(r.t, store.PushReport(r.t.Context(), r.fleet.Place, r.id, manifest))
	return manifest.Descriptor.Digest
}

func (r *reporter) record() (*v1beta2.Kyma, error) {
	kyma := &v1beta2.Kyma{}
	return kyma, r.fleet.Control.Get(r.t.Context(), client.ObjectKey{Namespace: sample.Namespace, Name: r.id}, kyma)
}

// untilReporting waits until the Kyma's Reporting condition contains the given text.
func (r *reporter) untilReporting(text string) *v1beta2.Kyma {
	r.t.Helper()
	var kyma *v1beta2.Kyma
	until(r.t, time.Minute, fmt.Sprintf("runtime %s: condition Reporting reports %q", r.id, text), func() (bool, string) {
		var err error
		if kyma, err = r.record(); err != nil {
			return false, err.Error()
		}
		condition := meta.FindStatusCondition(kyma.Status.Conditions, v1beta2.ConditionReporting)
		if condition == nil {
			return false, "no condition"
		}
		whole := fmt.Sprintf("%s=%s: %s", condition.Reason, condition.Status, condition.Message)
		return strings.Contains(whole, text), whole
	})
	return kyma
}

func reportOf(t *testing.T, f *fleet.Fleet, id string) bundle.Fetched {
	t.Helper()
	repository, err := f.Place.Repository(t.Context(), bundle.ReportRepository(id))
	must(t, err)
	fetched, err := store.Fetch(t.Context(), repository, bundle.TagLatest)
	must(t, err)
	return fetched
}

// denyStatus makes the API server reject a status update of one Kyma if a CEL expression is true. The returned function
// removes the policy.
func denyStatus(t *testing.T, api client.Client, name, expression string) func() {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	invalid := metav1.StatusReasonInvalid
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "deny-status-" + name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				ResourceRules: []admissionv1.NamedRuleWithOperations{
					{RuleWithOperations: admissionv1.RuleWithOperations{
						Operations: []admissionv1.OperationType{admissionv1.Update},
						Rule: admissionv1.Rule{
							APIGroups: []string{v1beta2.Group}, APIVersions: []string{"*"},
							Resources: []string{"kymas/status"},
						},
					}}}},
			Validations: []admissionv1.Validation{{
				Expression: fmt.Sprintf(
					"object.metadata.name != %q || !(has(object.status.runtime) && "+
						"has(object.status.runtime.observed) && has(object.status.runtime.observed.agentVersion) && %s)",
					name, expression),
				Message: "is denied by this test", Reason: &invalid,
			}},
		}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		}}
	must(t, api.Create(ctx, policy))
	must(t, api.Create(ctx, binding))
	stop := sync.OnceFunc(func() {
		if err := client.IgnoreNotFound(api.Delete(ctx, binding)); err != nil {
			t.Error(err)
		}
		if err := client.IgnoreNotFound(api.Delete(ctx, policy)); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// fetches records the digests of manifests that clients read from a registry.
type fetches struct {
	mu   sync.Mutex // guards the fields below
	seen map[string]bool
	next chan struct{} // closed and replaced by the next fetch
}

func watchFetches(f *fleet.Fleet) *fetches {
	all := &fetches{seen: map[string]bool{}, next: make(chan struct{})}
	f.Registry.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet {
			all.mu.Lock()
			defer all.mu.Unlock()
			all.seen[path.Base(r.URL.Path)] = true
			close(all.next)
			all.next = make(chan struct{})
		}
		return false
	})
	return all
}

// until waits until the publisher has read the report with a digest.
func (a *fetches) until(t *testing.T, d digest.Digest) {
	t.Helper()
	late := time.After(fleet.LongTimeout)
	for {
		a.mu.Lock()
		seen, next := a.seen[d.String()], a.next
		a.mu.Unlock()
		if seen {
			return
		}
		select {
		case <-next:
		case <-late:
			t.Fatalf("the publisher did not read report %s within %s", d, fleet.LongTimeout)
		}
	}
}
