package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/registry"
)

// Host names of the registry, which resolve to the same IP address. The publisher and the agents use different names,
// so the registry can count their requests separately.
const (
	publisherHost = "127.0.0.1"
	agentsHost    = "localhost"
)

// request is a kind of request to the registry. The registry counts requests of the same kind together.
type request struct {
	// From is the sender, Method the HTTP method, and About the type of the requested object, such as "manifests of
	// reports".
	From, Method, About string
}

// requestCount is the number of requests of one kind, and the time of the last response.
type requestCount struct {
	N    int64
	Last time.Time
}

// requestCounts maps each kind of request to its count.
type requestCounts map[request]requestCount

func (c requestCounts) n(from, method, about string) int64 { return c[request{from, method, about}].N }

func (c requestCounts) total(from string) (n int64) {
	for request, seen := range c {
		if request.From == from {
			n += seen.N
		}
	}
	return n
}

// requestsSince returns the requests since an earlier count.
func (c requestCounts) requestsSince(before requestCounts) requestCounts {
	later := requestCounts{}
	for request, now := range c {
		if n := now.N - before[request].N; n > 0 {
			later[request] = requestCount{n, now.Last}
		}
	}
	return later
}

// Kinds of requests that stages count.
const (
	aboutBundles = "manifests of runtimes"
	aboutReports = "manifests of reports"
	aboutMounts  = "uploads of runtimes"
)

// describePath returns the value of request.About for a path, such as "manifests of runtimes" for
// /v2/fleet/runtimes/r-1/manifests/desired.
func describePath(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	place, class := "other", "other"
	if len(parts) > 2 {
		place = parts[1]
		if parts[1] == fleetPath {
			place = parts[2]
		}
	}
	for i := len(parts) - 1; i > 0 && class == "other"; i-- {
		switch parts[i] {
		case "manifests", "tags", "uploads", "blobs":
			class = parts[i]
		}
	}
	return class + " of " + place
}

// published returns the ID of a runtime if the request pushed a bundle for this runtime. For other requests, it
// returns "".
func published(method, path string, status int) string {
	rest, ofRuntimes := strings.CutPrefix(path, "/v2/"+fleetPath+"/"+bundle.DesiredRepository(""))
	runtime, isBundle := strings.CutSuffix(rest, "/manifests/"+bundle.TagDesired)
	if method != http.MethodPut || status != http.StatusCreated || !ofRuntimes || !isBundle {
		return ""
	}
	return runtime
}

// arrivals contains the time when the registry received the newest bundle of each runtime.
type arrivals map[string]time.Time

// countSince returns the number of bundles that arrived after t.
func (a arrivals) countSince(t time.Time) (n requestCount) {
	for _, at := range a {
		if !at.After(t) {
			continue
		}
		n.N++
		if at.After(n.Last) {
			n.Last = at
		}
	}
	return n
}

// progressPath is the registry process's URL path for the number of arrived bundles.
const progressPath = "/bundles"

// entry is one element of a requestCounts in the registry process's JSON.
type entry struct {
	request
	requestCount
}

// serveRegistry is the main function of the registry process. It returns when its input closes.
func serveRegistry(ctx context.Context, options registry.Options, in io.Reader, out io.Writer) error {
	options.Address = net.JoinHostPort(publisherHost, "0") // agentsHost resolves to the same IP
	r, err := registry.Start(ctx, options)
	if err != nil {
		return err
	}
	var mu sync.Mutex // guards traffic and arrived
	traffic, arrived := requestCounts{}, arrivals{}
	r.Intercept(func(_ http.ResponseWriter, asked *http.Request) bool {
		host, _, _ := net.SplitHostPort(asked.Host)
		key := request{host, asked.Method, describePath(asked.URL.Path)}
		mu.Lock()
		defer mu.Unlock()
		traffic[key] = requestCount{traffic[key].N + 1, time.Now()}
		return false
	})
	r.Observe(func(asked *http.Request, status int) {
		host, _, _ := net.SplitHostPort(asked.Host)
		if runtime := published(asked.Method, asked.URL.Path, status); runtime != "" && host == publisherHost {
			mu.Lock()
			defer mu.Unlock()
			arrived[runtime] = time.Now()
		}
	})
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(err, r.Close())
	}
	handler := http.NewServeMux()
	handler.HandleFunc(progressPath, func(w http.ResponseWriter, asked *http.Request) {
		since, err := time.Parse(time.RFC3339Nano, asked.FormValue("since"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		mu.Lock()
		now := arrived.countSince(since)
		mu.Unlock()
		_ = json.NewEncoder(w).Encode(now) // an error means that the client has disconnected
	})
	handler.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		entries := make([]entry, 0, len(traffic))
		for key, value := range traffic {
			entries = append(entries, entry{key, value})
		}
		mu.Unlock()
		_ = json.NewEncoder(w).Encode(entries) // an error means that the client has disconnected
	})
	handler.HandleFunc("/debug/pprof/profile", pprof.Profile)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: handler}
	go func() { _ = server.Serve(listener) }() // returns when the server is closed
	if err := json.NewEncoder(out).Encode(registryAddresses{r.Host(), listener.Addr().String()}); err != nil {
		return errors.Join(err, server.Close(), r.Close())
	}
	_, _ = io.Copy(io.Discard, in)
	return errors.Join(server.Close(), r.Close())
}

// localClient is the HTTP client for the benchmark's processes. The timeout is long, because a profile takes 30
// seconds.
var localClient = &http.Client{Timeout: time.Minute}

type registryAddresses struct{ Registry, Traffic string }

// registryProcess is a running registry process.
type registryProcess struct {
	*program
	port, traffic string
	input         io.Closer
}

// startRegistry starts a registry with its data in a folder. notifications can be nil.
func startRegistry(dir string, notifications *fleet.Notifications) (*registryProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	args := []string{"-serve-registry", filepath.Join(dir, "registry")}
	if notifications != nil {
		args = append(args, "-serve-notify-url", notifications.ReceiverURL(), "-serve-notify-token",
			notifications.Token)
	}
	r := &registryProcess{}
	r.program, err = start(filepath.Join(dir, "registry.log"), self, args, func(cmd *exec.Cmd) {
		cmd.Stdout = write
		r.input, err = cmd.StdinPipe()
	})
	if err = errors.Join(err, write.Close()); err != nil {
		return nil, errors.Join(err, read.Close())
	}
	defer read.Close()
	line, err := bufio.NewReader(read).ReadBytes('\n')
	var addresses registryAddresses
	if err == nil {
		err = json.Unmarshal(line, &addresses)
	}
	if err == nil {
		_, r.port, err = net.SplitHostPort(addresses.Registry)
	}
	if err != nil {
		return r, fmt.Errorf("start the registry: %w\n%s", err, r.tail(4096))
	}
	r.traffic = addresses.Traffic
	return r, nil
}

// totalTraffic returns the counts of all requests so far.
func (r *registryProcess) totalTraffic(ctx context.Context) (requestCounts, error) {
	var entries []entry
	if err := r.ask(ctx, "/", &entries); err != nil {
		return nil, fmt.Errorf("get the traffic from the registry: %w", err)
	}
	traffic := requestCounts{}
	for _, e := range entries {
		traffic[e.request] = e.requestCount
	}
	return traffic, nil
}

// countArrived returns the number of runtimes whose bundles arrived after the time since.
func (r *registryProcess) countArrived(ctx context.Context, since time.Time) (requestCount, error) {
	var now requestCount
	err := r.ask(ctx, progressPath+"?since="+url.QueryEscape(since.Format(time.RFC3339Nano)), &now)
	if err != nil {
		return requestCount{}, fmt.Errorf("get the arrived bundles from the registry: %w", err)
	}
	return now, nil
}

func (r *registryProcess) ask(ctx context.Context, path string, into any) error {
	data, err := get(ctx, r.traffic, path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// get sends a GET request to a process of the bench.
func get(ctx context.Context, address, path string) ([]byte, error) {
	asked, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return nil, err
	}
	answer, err := localClient.Do(asked)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", path, answer.Status)
	}
	return io.ReadAll(answer.Body)
}
