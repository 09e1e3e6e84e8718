package scenario

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// localPage is `kcp-publisher ui`'s web page on an operator's workstation.
type localPage struct {
	address string // URL with the token
	base    string
	browser *http.Client
}

var printedAddress = regexp.MustCompile(`http://\S+\?token=\S+`)

// openPage starts the page and opens its printed address.
func openPage(t *testing.T, f *fleet.Fleet, args ...string) *localPage {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	words := wordsOf(t, blocksOf(t, "docs/guides/ui.md", 1)[0], "kcp.kubeconfig",
		filepath.Join(f.Dir, "kcp.kubeconfig"))
	command := exec.CommandContext(ctx, f.Binaries().Publisher,
		append(append(words[1:], "--bind-address", "127.0.0.1:0"), args...)...)
	browser := t.TempDir() // a folder for $PATH with a browser command that does nothing
	must(t, os.WriteFile(filepath.Join(browser, "xdg-open"), []byte("#!/bin/sh\n"), 0o700))
	command.Env = append(os.Environ(), "PATH="+browser+":"+os.Getenv("PATH"))
	printed, err := command.StdoutPipe()
	must(t, err)
	var log lockedBuffer
	command.Stderr = &log
	must(t, command.Start())
	t.Cleanup(func() {
		stop()
		_ = command.Wait()
		if t.Failed() {
			t.Logf("the page's log:\n%s", log.String())
		}
	})
	address := ""
	for lines := bufio.NewScanner(printed); address == ""; {
		if !lines.Scan() {
			t.Fatalf("no address was printed:\n%s", log.String())
		}
		address = printedAddress.FindString(lines.Text())
	}
	base, _, _ := strings.Cut(address, "/?")
	jar, err := cookiejar.New(nil)
	must(t, err)
	return &localPage{address: address, base: base, browser: &http.Client{Jar: jar}}
}

type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

func (p *localPage) get(t *testing.T, address string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	must(t, err)
	response, err := p.browser.Do(request)
	must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, string(body)
}

// untilShows waits until a page contains all strings.
func (p *localPage) untilShows(t *testing.T, path string, texts ...string) {
	t.Helper()
	until(t, 40*time.Second, path+" shows "+strings.Join(texts, ", "), func() (bool, string) {
		_, body := p.get(t, p.base+path)
		for _, text := range texts {
			if !strings.Contains(body, text) {
				return false, body
			}
		}
		return true, ""
	})
}

func TestOperatorApprovesAWaveInTheUI(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{})
	simulate(t, f, 1, 2)
	must(t, f.CreatePolicy(ctx, "scaler", stages(func(_, others *v1alpha1.Wave) { others.Approval = true })))
	p := openPage(t, f, "--location", f.Location(), "--trust", filepath.Join(f.Keys(), "root.json"))
	if status, body := p.get(t, p.base+"/"); status != http.StatusForbidden || strings.Contains(body, "canary-0") {
		t.Errorf("request without a token: got status %d, want 403 without data\n%s", status, body)
	}
	until(t, 40*time.Second, "the page shows the control plane's data", func() (bool, string) {
		status, body := p.get(t, p.address)
		return status == http.StatusOK, body
	})
	p.untilShows(t, "/", "All 3 runtimes are healthy", "canary-0", "other-1")
	p.untilShows(t, "/runtimes/other-0", "This runtime has no problems", "Published and in force", "Signed by",
		"under root of trust version 1")
	p.untilShows(t, "/modules", "scaler", "1.7.0", "3 Ready")

	stream := p.listen(t)
	promote(t, f, "1.8.0")
	stream.wait(t)
	must(t, f.UntilRollout(ctx, firstRollout, "the rollout waits for approval", rolledOut(v1alpha1.RolloutWaiting)))
	p.untilShows(t, "/rollouts/"+firstRollout, "waits for its approval", "Approve wave others")
	p.untilShows(t, "/", "Active rollouts", "1 of 3 updated")
	post := func(form url.Values) (int, string) {
		response, err := p.browser.PostForm(p.base+"/rollouts/"+firstRollout, form)
		must(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		must(t, err)
		return response.StatusCode, string(body)
	}
	form := url.Values{"action": {"approve"}, "wave": {"others"}}
	_, confirmation := post(form)
	_, selection, _ := strings.Cut(confirmation, `name="selection" value="`)
	selection, _, _ = strings.Cut(selection, `"`)
	form.Set("confirmed", "yes")
	form.Set("selection", selection)
	if status, body := post(form); status != http.StatusOK || !strings.Contains(body, "The wave is approved.") {
		t.Errorf("approve: got status %d\n%s", status, body)
	}
	must(t, f.UntilRollout(ctx, firstRollout, "the rollout succeeds", rolledOut(v1alpha1.RolloutSucceeded)))
	p.untilShows(t, "/rollouts", "No active rollouts", "Succeeded", "1.7.0 → 1.8.0")
	p.untilShows(t, "/?module=scaler&version=1.8.0", "of 3")
	checkListedBundles(t, f, p, "other-0")

	if output, err := f.Ask(ctx, "ui", "--bind-address", "0.0.0.0:0"); err == nil ||
		!strings.Contains(output, "--external-url") {
		t.Errorf("a page on a public address with the operator's own permissions is not refused: %v\n%s", err, output)
	}
	if output, err := f.Ask(ctx, "ui", "--trust", filepath.Join(f.Keys(), "root.json")); err == nil ||
		!strings.Contains(output, "--location and --trust: set both or neither") {
		t.Errorf("a root of trust without a registry is not refused: %v\n%s", err, output)
	}
}

// checkListedBundles checks that the page and `status` list a runtime's bundles from before and after a promotion.
func checkListedBundles(t *testing.T, f *fleet.Fleet, p *localPage, runtime string) {
	t.Helper()
	p.untilShows(t, "/runtimes/"+runtime, "scaler 1.7.0 → 1.8.0", "in force, Ready", "applied, Ready",
		"scaler 1.7.0")
	registry := []string{"--location", f.Location(), "--trust", filepath.Join(f.Keys(), "root.json")}
	with := func(args ...string) []string { return append(args, registry...) }
	output, err := f.Ask(t.Context(), with("status", runtime, "-o", "json")...)
	must(t, err)
	var got struct {
		Bundles []struct {
			Digest, Outcome, State, Unverified string
			Applied                            *time.Time
			Signed                             *struct{ Digest, PublisherKey string }
		}
	}
	must(t, json.Unmarshal([]byte(output), &got))
	outcomes := map[string]int{}
	for i, b := range got.Bundles {
		if b.Unverified != "" || b.Signed == nil || b.Signed.Digest != b.Digest || b.Signed.PublisherKey == "" {
			t.Errorf("bundle %d is not verified: %+v", i, b)
		}
		if b.Applied != nil && b.State == "Ready" {
			outcomes[b.Outcome]++
		}
	}
	if outcomes["InForce"] != 1 || outcomes["Applied"] == 0 {
		t.Errorf("unexpected outcomes of ready bundles: %v\n%s", outcomes, output)
	}
	output, err = f.Ask(t.Context(), with("status", runtime)...)
	if err != nil || !strings.Contains(output, "scaler 1.7.0 → 1.8.0") || strings.Contains(output, "not verified") {
		t.Errorf("status does not show the verified version change: error %v\n%s", err, output)
	}
	output, err = f.Why(t.Context(), with(runtime, "-o", "json")...)
	if err != nil || !strings.Contains(output, got.Bundles[len(got.Bundles)-1].Digest) {
		t.Errorf("why does not list the previous bundles: %v\n%s", err, output)
	}
}

// eventStream is an open stream of server-sent events from the page.
type eventStream struct{ events *bufio.Scanner }

// listen opens the event stream and reads the first event.
func (p *localPage) listen(t *testing.T) *eventStream {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), fleet.LongTimeout)
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+"/live", nil)
	must(t, err)
	response, err := p.browser.Do(request)
	must(t, err)
	t.Cleanup(func() { response.Body.Close() })
	l := &eventStream{events: bufio.NewScanner(response.Body)}
	l.wait(t)
	return l
}

// wait reads the stream until the next event.
func (l *eventStream) wait(t *testing.T) {
	t.Helper()
	for l.events.Scan() {
		if strings.HasPrefix(l.events.Text(), "data: ") {
			return
		}
	}
	t.Fatalf("the stream ended: %v", l.events.Err())
}
