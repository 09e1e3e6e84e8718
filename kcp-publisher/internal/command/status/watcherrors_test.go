package status

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplanetest"
)

// denyingServer is a proxy in front of a test control plane.
type denyingServer struct {
	*httptest.Server
	mu sync.Mutex
	// denies returns the status of a denied request, or 0.
	denies func(*http.Request) int
}

func (d *denyingServer) deny(denies func(*http.Request) int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.denies = denies
}

// startDenyingServer starts a proxy, and returns it with the arguments that select it.
func startDenyingServer(t *testing.T) (proxy *denyingServer, arguments []string) {
	t.Helper()
	path := controlplanetest.New(t, 2).Kubeconfig(t)
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(target)
	d := &denyingServer{denies: func(*http.Request) int { return 0 }}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		code := d.denies(r)
		d.mu.Unlock()
		if code != 0 {
			w.WriteHeader(code)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(d.Close)
	return d, []string{"--kubeconfig", path, "--server", d.URL, "--watch"}
}

// lockedBuffer is a buffer for concurrent use.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(data)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// watchStatus starts `status --watch` and returns its output and its result.
func watchStatus(t *testing.T, arguments []string) (out, errOut *lockedBuffer, result <-chan error) {
	t.Helper()
	out, errOut = &lockedBuffer{}, &lockedBuffer{}
	cmd := New()
	cmd.SetArgs(arguments)
	cmd.SetOut(out)
	cmd.SetErr(errOut)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	done := make(chan error, 1)
	go func() { done <- cmd.ExecuteContext(t.Context()) }()
	return out, errOut, done
}

func TestWatchWithoutPermissionToListRolloutsFails(t *testing.T) {
	server, arguments := startDenyingServer(t)
	server.deny(func(r *http.Request) int {
		if strings.HasSuffix(r.URL.Path, "/rollouts") {
			return http.StatusForbidden
		}
		return 0
	})
	_, _, result := watchStatus(t, arguments)
	select {
	case err := <-result:
		if !apierrors.IsForbidden(err) {
			t.Errorf("got error %v, want Forbidden", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the command did not end")
	}
}

func TestWatchReportsExpiredCredentials(t *testing.T) {
	server, arguments := startDenyingServer(t)
	out, errOut, result := watchStatus(t, arguments)
	await := func(buffer *lockedBuffer, want string) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); !strings.Contains(buffer.String(), want); {
			select {
			case err := <-result:
				t.Fatalf("the command ended with %v", err)
			case <-time.After(10 * time.Millisecond):
			}
			if time.Now().After(deadline) {
				t.Fatalf("got output %q, want %q", buffer.String(), want)
			}
		}
	}
	await(out, "2 healthy")
	server.deny(func(*http.Request) int { return http.StatusUnauthorized })
	await(errOut, "  cannot read the control plane, so the output may be outdated: ")
}

func TestWatchStartGivesUpAfterRepeatedErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		handle, failed := newWatchErrors(ctx)
		never := func(ctx context.Context) bool { <-ctx.Done(); return false }
		for _, ignored := range []error{
			apierrors.NewResourceExpired("too old"), &apierrors.StatusError{ErrStatus: metav1.Status{Code: 410, Reason: "Gone"}},
		} {
			handle(ctx, nil, ignored)
		}
		start, broken := time.Now(), errors.New("the server is broken")
		handle(ctx, nil, broken)
		if err := waitForSync(ctx, never, failed); !errors.Is(err, broken) || time.Since(start) != syncTimeout {
			t.Errorf("got error %v after %s, want %v after %s", err, time.Since(start), broken, syncTimeout)
		}
		handle(ctx, nil, broken)
		slow := func(context.Context) bool { time.Sleep(syncTimeout / 2); return true }
		if err := waitForSync(ctx, slow, failed); err != nil {
			t.Errorf("cache that syncs after an error: got %v", err)
		}
	})
}

func TestOutageIsPrintedAtItsStartAndEnd(t *testing.T) {
	var out bytes.Buffer
	o := outage{out: &out}
	for _, read := range []struct {
		after time.Duration
		err   error
	}{
		{0, nil},
		{time.Second, errors.New("Unauthorized")},
		{30 * time.Second, errors.New("Unauthorized")},
		{60 * time.Second, nil},
		{90 * time.Second, errors.New("Unauthorized")},
		{120 * time.Second, nil},
		{180 * time.Second, nil},
		{210 * time.Second, nil},
	} {
		o.record(read.err, noon.Add(read.after))
	}
	want := "12:00:01  cannot read the control plane, so the output may be outdated: Unauthorized\n" +
		"12:03:00  the control plane is readable again\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
