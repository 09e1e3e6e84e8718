package plan

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

// A recreated cluster has a new UID, and its agent has a new key. The agent can enroll only with a newer token.
func TestRecreatedClusterIsEnrolledAgain(t *testing.T) {
	secrets := trust.TokenSecrets{make([]byte, 32)}
	enroll := func(expires time.Time) trust.Enrollment {
		t.Helper()
		key := trusttest.PublicKey(t, trusttest.NewSigner(t))
		encoded, err := trust.EncodePublicKey(key)
		if err != nil {
			t.Fatal(err)
		}
		token, err := secrets.Issue("one", expires)
		if err != nil {
			t.Fatal(err)
		}
		proof, err := token.Prove("one", key)
		if err != nil {
			t.Fatal(err)
		}
		return trust.Enrollment{PublicKey: encoded, Proof: proof, TokenExpires: token.Expires.Unix()}
	}
	kyma := readyKyma("one")
	kyma.Status.Runtime.Key = &v1beta2.RuntimeKey{
		Thumbprint: "of the cluster before", TokenExpires: metav1.NewTime(noon.Add(time.Hour)),
	}
	kyma.Status.Runtime.Requested = &v1beta2.RequestedSpec{
		Generation: 4, Spec: v1beta2.KymaSpec{
			Channel: "fast", Modules: []v1beta2.Module{{Name: "mailer", Managed: true}},
		},
	}
	reporter := (Rules{}).Reporter(kyma, secrets, noon)
	if err := reporter.Enroll(enroll(noon.Add(time.Hour))); err == nil ||
		!strings.Contains(err.Error(), "run `kcp-publisher enroll` again") {
		t.Errorf("token of the previous cluster: got %v", err)
	}
	if err := reporter.Enroll(enroll(noon.Add(2 * time.Hour))); err != nil {
		t.Errorf("newer token: got %v", err)
	}
	kyma.Status.Runtime.Observed.ClusterUID = "recreated"
	if audience := (Rules{}).Runtime(kyma, nil).Audience; audience.ClusterUID != "recreated" {
		t.Errorf("got audience %+v, want the UID of the recreated cluster", audience)
	}
	request, err := (Rules{}).Request(kyma, nil)
	if err != nil || len(request.Seed.Modules) != 1 || request.Seed.Modules[0].Name != "mailer" ||
		request.Seed.Channel != "fast" {
		t.Errorf("got seed %+v, %v, want mailer in channel fast", request.Seed, err)
	}
}
