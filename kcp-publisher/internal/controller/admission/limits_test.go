package admission

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	k8sruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/serve"
)

// endless is a request body that starts like an AdmissionReview and then continues with spaces forever.
type endless struct {
	start io.Reader
	sent  int64
}

func (e *endless) Read(p []byte) (int, error) {
	if n, err := e.start.Read(p); err == nil {
		return n, nil
	}
	const most = 512 << 20
	if e.sent += int64(len(p)); e.sent > most {
		return 0, io.EOF
	}
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// TestUnboundedReviewBodiesAreRefused sends an endless request, as any client in the cluster could do.
func TestUnboundedReviewBodiesAreRefused(t *testing.T) {
	scheme := k8sruntime.NewScheme()
	if err := errors.Join(v1beta1.AddToScheme(scheme), v1beta2.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	handler, err := newHandler(scheme, nil)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(nil)
	server.Config = serve.New(handler, requestLimits)
	server.Start()
	defer server.Close()
	const review = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"1","desiredAPIVersion":"operator.kyma-project.io/v1beta2","objects":[`
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var group sync.WaitGroup
	for _, path := range []string{pathConvert, pathTemplate, "/elsewhere"} {
		for range 8 {
			group.Go(func() {
				body := &endless{start: strings.NewReader(review)}
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, body)
				if err != nil {
					t.Error(err)
					return
				}
				request.Header.Set("Content-Type", "application/json")
				response, err := server.Client().Do(request)
				if err == nil {
					_ = response.Body.Close()
				}
				// Allow more data than the limit, because socket buffers can contain part of it.
				if body.sent > 64<<20 {
					t.Errorf("%s: the server read %d MiB, want at most 64", path, body.sent>>20)
				}
			})
		}
	}
	group.Wait()
	runtime.ReadMemStats(&after)
	if took := int64(after.Sys) - int64(before.Sys); took > 512<<20 {
		t.Errorf("the server used %d MiB of memory for endless bodies", took>>20)
	}
	large, err := http.Post(server.URL+pathConvert, "application/json", bytes.NewReader(make([]byte, requestLimits.BodyBytes+1))) //nolint:noctx // a test's own server
	if err != nil {
		t.Fatal(err)
	}
	_ = large.Body.Close()
	if large.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a body with a too large Content-Length: got status %s", large.Status)
	}
	fine, err := http.Post(server.URL+pathConvert, "application/json", strings.NewReader(review+`]}}`)) //nolint:noctx // a test's own server
	if err != nil {
		t.Fatal(err)
	}
	defer fine.Body.Close()
	if answer, err := io.ReadAll(fine.Body); err != nil || fine.StatusCode != http.StatusOK ||
		!strings.Contains(string(answer), `"status":"Success"`) {
		t.Errorf("a valid review after the endless ones: got %s, %s, %v", fine.Status, answer, err)
	}
}
