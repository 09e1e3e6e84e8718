package store

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
)

func TestStreamSendsCredentialsOnlyToItsHost(t *testing.T) {
	asked := map[string]string{}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		asked["elsewhere"], _, _ = request.BasicAuth()
	}))
	defer elsewhere.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		user, password, _ := request.BasicAuth()
		asked[request.URL.Path] = user + ":" + password
		switch request.URL.Path {
		case "/notifications":
			w.Header().Set("Content-Type", bundle.NotificationsMediaType)
			w.(http.Flusher).Flush()
			<-request.Context().Done()
		case "/redirect":
			http.Redirect(w, request, elsewhere.URL, http.StatusTemporaryRedirect)
		case "/refused":
			w.WriteHeader(http.StatusUnauthorized)
		case "/replica", "/busy":
			w.Header().Set("Retry-After", map[string]string{"/replica": "1", "/busy": "5"}[request.URL.Path])
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	config := fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, host,
		base64.StdEncoding.EncodeToString([]byte("one:secret")))
	registries, err := NewRegistries(Access{NoRetry: true, DockerConfig: config, RequestTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	answer, err := registries.Stream(ctx, server.URL+"/notifications")
	if err != nil {
		t.Fatal(err)
	}
	if asked["/notifications"] != "one:secret" {
		t.Errorf("got user %q, want one:secret", asked["/notifications"])
	}
	ended := make(chan error, 1)
	go func() {
		_, err := answer.Read(make([]byte, 1))
		ended <- err
	}()
	select {
	case err := <-ended:
		t.Errorf("the stream ended without cancellation: %v", err)
	case <-time.After(300 * time.Millisecond): // longer than the timeout of any other request
	}
	cancel()
	if <-ended == nil {
		t.Error("the stream continues after its context was canceled")
	}
	if err := answer.Close(); err != nil {
		t.Error(err)
	}
	for path, want := range map[string]string{
		server.URL + "/redirect": "307 Temporary Redirect", server.URL + "/refused": "401 Unauthorized",
		server.URL + "/replica": ErrOtherReplica.Error(), server.URL + "/busy": "503 Service Unavailable",
		server.URL + "/other":     "must be text/event-stream",
		elsewhere.URL + "/x":      "no user and password for",
		"http://registry.example": "not sent over plain HTTP", "ftp://registry.example": "must be https://",
		"https://a:hidden@registry.example": "must be https://", "": "must be https://",
		server.URL + "/notifications?token=hidden": "must be https://", "https://registry.example?": "must be https://",
		"https://registry.example/#hidden":          "must be https://",
		"https://registry.example/%zz?token=hidden": "must be https://",
	} {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := registries.Stream(ctx, path)
		cancel()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") ||
			strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
	}
	if user, ok := asked["elsewhere"]; ok {
		t.Errorf("got a request of user %q at another host, want none", user)
	}
}
