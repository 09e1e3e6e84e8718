package receiver

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	dto "github.com/prometheus/client_model/go"

	"github.com/kyma-pull/kyma-pull/internal/serve"
)

const secret = "0123456789abcdef0123456789abcdef"

func tokenFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func counted(t *testing.T, do func()) string {
	t.Helper()
	all := []string{
		resultTaken, resultIgnored, resultRefused, resultInvalid, resultLimited, resultStandby, resultUnavailable,
	}
	counts := func() []float64 {
		var values []float64
		for _, result := range all {
			var m dto.Metric
			if err := received.WithLabelValues(result).Write(&m); err != nil {
				t.Fatal(err)
			}
			values = append(values, m.GetCounter().GetValue())
		}
		return values
	}
	before := counts()
	do()
	var changed []string
	for i, count := range counts() {
		if count != before[i] {
			changed = append(changed, all[i])
		}
	}
	return strings.Join(changed, ",")
}

func post(handler http.Handler, authorization, body string) int {
	request := httptest.NewRequest(http.MethodPost, Path, strings.NewReader(body))
	request.Header.Set("Content-Type", distributionEvents)
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	answer := httptest.NewRecorder()
	serve.New(handler, Limits).Handler.ServeHTTP(answer, request)
	return answer.Code
}

func TestNotificationsRequireTheToken(t *testing.T) {
	path := tokenFile(t, secret+"\n")
	tokens, err := OpenTokenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var messages []string
	leads := true
	r := New(Options{Prefix: "fleet", Tokens: tokens, Leading: func() bool { return leads }, Log: logr.Discard(),
		Request: func(runtime string) bool {
			messages = append(messages, runtime)
			return true
		}})
	body := sample(t, "distribution.json")
	basic := httptest.NewRequest(http.MethodPost, "/", nil)
	basic.SetBasicAuth("webhook", secret)
	for name, c := range map[string]struct {
		authorization, body string
		code                int
		requested           bool
	}{
		"request with the token":             {"Bearer " + secret, body, http.StatusAccepted, true},
		"request with the token as password": {basic.Header.Get("Authorization"), body, http.StatusAccepted, true},
		"request without a token":            {"", body, http.StatusUnauthorized, false},
		"request with a different token": {
			"Bearer " + strings.Repeat("x", len(secret)), body, http.StatusUnauthorized, false,
		},
		"request with a truncated token": {"Bearer " + secret[:20], body, http.StatusUnauthorized, false},
		"token without a scheme":         {secret, body, http.StatusUnauthorized, false},
		"body over the size limit": {
			"Bearer " + secret, strings.Repeat(" ", maxBodyBytes+1), http.StatusRequestEntityTooLarge, false,
		},
		"invalid body":                {"Bearer " + secret, "no", http.StatusBadRequest, false},
		"notification without events": {"Bearer " + secret, "{}", http.StatusAccepted, false},
	} {
		messages = nil
		if code := post(r, c.authorization, c.body); code != c.code || (len(messages) > 0) != c.requested {
			t.Errorf("%s: got %d and requests for %v", name, code, messages)
		}
	}
	leads = false
	if result := counted(t, func() {
		if code := post(r, "Bearer "+secret, body); code != http.StatusServiceUnavailable {
			t.Errorf("standby replica: got %d, want 503", code)
		}
	}); result != resultStandby {
		t.Errorf("standby replica: got result %q", result)
	}
	leads = true

	other := strings.Repeat("n", minTokenLength)
	for _, content := range []string{other + "\n" + secret, other} {
		if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		want := map[bool]int{true: http.StatusAccepted,
			false: http.StatusUnauthorized}[strings.Contains(content, secret)]
		if code := post(r, "Bearer "+secret, body); code != want {
			t.Errorf("previous token: got status %d, want %d", code, want)
		}
		if code := post(r, "Bearer "+other, body); code != http.StatusAccepted {
			t.Errorf("new token: got status %d, want 202", code)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if result := counted(t, func() {
		if code := post(r, "Bearer "+other, body); code != http.StatusServiceUnavailable {
			t.Errorf("without the token file: got status %d, want 503", code)
		}
	}); result != resultUnavailable {
		t.Errorf("without the token file: got result %q", result)
	}
}

func TestReceiverRequiresATokenFile(t *testing.T) {
	for name, content := range map[string]string{
		"an empty file": "", "file with a short token": "short", "file with an empty line": secret + "\n\n" + secret,
		"file with three tokens":   secret + "\n" + secret + "\n" + secret,
		"a file that is too large": strings.Repeat("x", maxTokenBytes+1),
	} {
		if _, err := OpenTokenFile(tokenFile(t, content)); err == nil {
			t.Errorf("%s: OpenTokenFile succeeded, want an error", name)
		}
	}
	if _, err := OpenTokenFile(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing file was accepted")
	}
}

// The test opens as many connections without the token as the limit allows, and never closes them.
func TestClientsWithoutATokenDoNotBlockOthers(t *testing.T) {
	tokens, err := OpenTokenFile(tokenFile(t, secret))
	if err != nil {
		t.Fatal(err)
	}
	r := New(Options{
		Prefix: "fleet", Tokens: tokens, Leading: func() bool { return true }, Log: logr.Discard(),
		Request: func(string) bool { return true },
	})
	listener, err := serve.Listen(t.Context(), "127.0.0.1:0", nil, Limits)
	if err != nil {
		t.Fatal(err)
	}
	server := serve.New(r, Limits)
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close(); <-served })
	send := func(authorization string) int {
		t.Helper()
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
		if _, err := fmt.Fprintf(conn,
			"POST %s HTTP/1.1\r\nHost: receiver\r\nAuthorization: %s\r\nContent-Length: 0\r\n\r\n", Path,
			authorization); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("got no response: %v", err)
		}
		return answer.StatusCode
	}
	for range Limits.Connections {
		if code := send("Bearer wrong"); code != http.StatusUnauthorized && code != http.StatusTooManyRequests {
			t.Fatalf("without the token: got %d", code)
		}
	}
	if code := send("Bearer " + secret); code != http.StatusAccepted {
		t.Errorf("with the token: got %d", code)
	}
}

// The test sends one flood with the token and another flood with a wrong token.
func TestFloodOfNotificationsIsLimited(t *testing.T) {
	tokens, err := OpenTokenFile(tokenFile(t, secret))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{
			Prefix: "fleet", Tokens: tokens, Leading: func() bool { return true }, Log: logr.Discard(),
			Request: func(string) bool { return true },
		})
		for authorization, most := range map[string]int{"Bearer " + secret: notificationsAtOnce,
			"Bearer wrong": refusalsAtOnce} {
			codes := map[int]int{}
			for range 3 * most {
				codes[post(r, authorization, "{}")]++
			}
			if codes[http.StatusTooManyRequests] != 2*most {
				t.Errorf("authorization %q: got status counts %v, want 429 for two thirds of the requests",
					authorization, codes)
			}
		}
		time.Sleep(time.Minute)
		largest, codes := "{}"+strings.Repeat(" ", maxBodyBytes-2), map[int]int{}
		const most = bytesAtOnce / maxBodyBytes
		for range 3 * most {
			codes[post(r, "Bearer "+secret, largest)]++
		}
		if codes[http.StatusTooManyRequests] != 2*most {
			t.Errorf("large notifications: got status counts %v, want 429 for two thirds of the requests", codes)
		}
		time.Sleep(time.Second)
		if code := post(r, "Bearer "+secret, "{}"); code != http.StatusAccepted {
			t.Errorf("one second later: got %d", code)
		}
	})
}

func TestFrequentReportsDoNotDelayOtherRuntimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		reads := map[string][]time.Duration{}
		began := time.Now()
		requested := NewReads(func(_ context.Context, runtime string) error {
			mu.Lock()
			defer mu.Unlock()
			reads[runtime] = append(reads[runtime], time.Since(began))
			return nil
		}, time.Now)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = requested.Start(ctx) }()
		for i := range 1000 { // ten seconds
			requested.Add("noisy")
			if i == 500 {
				requested.Add("quiet")
			}
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(2 * readInterval)
		synctest.Wait()
		if got := reads["noisy"]; len(got) < 5 || len(got) > 7 || got[0] > 100*time.Millisecond {
			t.Errorf("got reads of the noisy runtime after %v", got)
		} else if last := got[len(got)-1]; last < 9990*time.Millisecond {
			t.Errorf("the last notification caused no read: the last read was after %s", last)
		}
		if got := reads["quiet"]; len(got) != 1 || got[0] > 5100*time.Millisecond {
			t.Errorf("got reads of the quiet runtime after %v", got)
		}
		cancel()
		<-ended
	})
}

func TestNotificationsForAllRuntimesAreProcessedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var count atomic.Int64
		var order []string
		requested := NewReads(func(_ context.Context, runtime string) error {
			count.Add(1)
			order = append(order, runtime)
			return nil
		}, time.Now)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = requested.Start(ctx) }()
		for range 3 {
			for _, prefix := range []string{"a", "b", "c", "d", "e"} {
				for i := range readsPerSecond {
					requested.Add(prefix + strings.Repeat("x", i))
				}
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := count.Load(); got > 2*readsPerSecond+1 {
			t.Errorf("got %d reads in one second", got)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := count.Load(); got < 5*readsPerSecond {
			t.Errorf("got %d reads, want one for each runtime", got)
		}
		if first := order[:readsPerSecond]; slices.ContainsFunc(first,
			func(runtime string) bool { return runtime[0] != 'a' }) {
			t.Error("the reads are not in the order of the notifications")
		}
		cancel()
		<-ended
	})
}
