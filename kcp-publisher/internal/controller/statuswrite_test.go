package controller

import (
	"io"
	"net/http"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
)

// responseBytes counts the bytes of responses.
type responseBytes struct {
	next http.RoundTripper
	read int
}

func (r *responseBytes) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.next.RoundTrip(request)
	if err == nil {
		response.Body = countedBody{response.Body, r}
	}
	return response, err
}

type countedBody struct {
	io.ReadCloser
	counter *responseBytes
}

func (b countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.counter.read += n
	return n, err
}

// statusWorld is an API server with a converged Kyma, and the part of a publisher that writes the Kyma's status.
type statusWorld struct {
	*users
	kymas     *Kymas
	responses *responseBytes
}

func newStatusWorld(t *testing.T) *statusWorld {
	t.Helper()
	w := &statusWorld{users: startUsers(t), responses: &responseBytes{}}
	config := rest.CopyConfig(w.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		w.responses.next = next
		return w.responses
	})
	api, err := client.New(config, client.Options{Scheme: w.scheme})
	w.must(err)
	recorder := events.NewFakeRecorder(0)
	recorder.Events = nil
	w.kymas = &Kymas{
		Client: api, Events: recorder, Catalog: &Catalog{Changes: NewChanges()}, fleet: fleetstate.New(),
		Now: func() time.Time { return noon },
	}
	return w
}

func (w *statusWorld) stored() *v1beta2.Kyma {
	w.t.Helper()
	kyma := &v1beta2.Kyma{}
	w.must(w.admin.Get(w.t.Context(), client.ObjectKey{Namespace: "kcp-system", Name: "one"}, kyma))
	return kyma
}

// writableStatus returns a status that the API server accepts.
func writableStatus() v1beta2.KymaStatus {
	status, at := convergedKyma().Status, metav1.NewTime(noon.Local())
	status.Conditions[0].LastTransitionTime = at
	status.Runtime.Published.Time, status.Runtime.Observed.Time = at, at
	return status
}

// createKyma creates a Kyma and writes its first status.
func (w *statusWorld) createKyma() *v1beta2.Kyma {
	w.t.Helper()
	converged := convergedKyma()
	kyma := kymaIn("kcp-system", "one")
	kyma.Labels, kyma.Spec = map[string]string{v1beta2.LabelRuntimeID: "one"}, converged.Spec
	kyma.Spec.Channel = "regular"
	w.must(w.admin.Create(w.t.Context(), kyma))
	before := kyma.DeepCopy()
	kyma.Status = writableStatus()
	w.write(before, kyma)
	return kyma
}

func (w *statusWorld) write(before, after *v1beta2.Kyma) {
	w.t.Helper()
	refused, err := w.kymas.patchStatus(quiet(w.t.Context()), before, after)
	w.must(refused)
	w.must(err)
}

func TestStatusWriteChangesOnlyTheStatus(t *testing.T) {
	w := newStatusWorld(t)
	kyma := w.createKyma()
	spec := kyma.Spec.DeepCopy()
	for _, c := range []struct {
		name   string
		change func(*v1beta2.Kyma)
	}{
		{"module changed", func(k *v1beta2.Kyma) { k.Status.Modules[3].Version = "1.1.0" }},
		{"module removed", func(k *v1beta2.Kyma) { k.Status.Modules = k.Status.Modules[1:] }},
		{"observed bundle removed", func(k *v1beta2.Kyma) { k.Status.Runtime.Observed = nil }},
		{"whole status removed", func(k *v1beta2.Kyma) { k.Status = v1beta2.KymaStatus{} }},
		{"first status", func(k *v1beta2.Kyma) { k.Status = writableStatus() }},
	} {
		name, before := c.name, kyma.DeepCopy()
		c.change(kyma)
		kyma.Spec, kyma.Labels = v1beta2.KymaSpec{Channel: "ignored"}, nil // as if an admission policy had removed them
		w.write(before, kyma)
		got := w.stored()
		if !equality.Semantic.DeepEqual(got.Spec, *spec) || got.Labels[v1beta2.LabelRuntimeID] != "one" {
			t.Errorf("%s: the write changed the spec or the labels: %+v %v", name, got.Spec, got.Labels)
		}
		if kyma.ResourceVersion != got.ResourceVersion || kyma.ResourceVersion == before.ResourceVersion {
			t.Errorf("%s: got resource version %s after %s, want %s", name, kyma.ResourceVersion,
				before.ResourceVersion, got.ResourceVersion)
		}
		again := got.DeepCopy()
		again.Status = kyma.Status
		w.must(w.admin.Status().Update(t.Context(), again))
		if again.ResourceVersion != got.ResourceVersion {
			t.Errorf("%s: the stored status differs from the written status", name)
		}
	}
	managers := map[string]bool{}
	for _, m := range w.stored().ManagedFields {
		managers[m.Manager+m.Subresource] = true
	}
	if len(managers) != 2 {
		t.Errorf("the fields of the Kyma have managers %v, want one for the spec and one for the status", managers)
	}
}

// The response to a status write must not contain the status, because the publisher would have to decode it.
func TestStatusWriteReturnsOnlyTheMetadata(t *testing.T) {
	w := newStatusWorld(t)
	kyma := w.createKyma()
	before := kyma.DeepCopy()
	kyma.Status.Modules[3].Version = "1.1.0"
	w.responses.read = 0
	w.write(before, kyma)
	status := memo.Encode(kyma.Status)
	if read := w.responses.read; read == 0 || read > len(status)/2 {
		t.Errorf("the response has %d bytes, want less than half of the status with %d bytes", read, len(status))
	}
}

// A write of an outdated status must fail with a conflict, for every change that another client can make. With any
// other error, the publisher would treat the status as refused by the API server, and write a status with the error.
func TestOutdatedStatusWriteIsAConflict(t *testing.T) {
	w := newStatusWorld(t)
	kyma := w.createKyma()
	ctx := t.Context()
	// The order matters: each change must have an effect after the changes before it.
	for _, c := range []struct{ name, change string }{
		{"state changed", `{"status":{"state":"Warning"}}`},
		{"runtime status removed", `{"status":{"runtime":null}}`},
		{"status removed", `{"status":null}`},
	} {
		before := kyma.DeepCopy()
		after := before.DeepCopy()
		after.Status.State = v1beta2.StateError
		other := kymaIn("kcp-system", "one")
		w.must(w.admin.Status().Patch(ctx, other, client.RawPatch(types.MergePatchType, []byte(c.change))))
		refused, err := w.kymas.patchStatus(quiet(ctx), before, after)
		if refused != nil || !apierrors.IsConflict(err) {
			t.Errorf("%s: got refusal %v and error %v, want a conflict", c.name, refused, err)
		}
		got := w.stored()
		if got.ResourceVersion != other.ResourceVersion {
			t.Errorf("%s: the outdated write changed the Kyma: %+v", c.name, got.Status)
		}
		kyma = got
	}
}
