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
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/kyma-pull/kyma-pull/integration/bench/process"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// runsPerCommand is the number of runs of each command. The results contain the median.
const runsPerCommand = 3

// measureCommands measures `kcp-publisher status` and the UI. It stops the publisher and copies Kymas in etcd until the
// fleet has the requested size. It must be the last stage, because the copies remain.
func (w *world) measureCommands(ctx context.Context) error {
	if err := w.killPublisher(); err != nil {
		return err
	}
	w.kymas.close() // otherwise, the watch would receive every copied Kyma
	each, err := w.copyKymas(ctx)
	if err != nil {
		return err
	}
	w.add(each, size, "a Kyma in etcd",
		fmt.Sprintf("%d Kymas, %d of them copies; a twentieth is silent, a fiftieth has a broken module", w.Seen,
			max(0, w.Seen-w.Runtimes)))
	// Once a list is complete, the API server's cache contains all copies.
	if err := w.waitUntil(ctx, "the API server lists all copies", func() (bool, string) {
		s, err := w.measureCommand(ctx, "status", "-o", "name")
		return err == nil && s.lines == max(w.Seen, w.Runtimes), fmt.Sprint(s.lines, err)
	}); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"status"}, {"status", "--failing"}, {"status", "--behind"}, {"status", "--silent"}, {"status", "-A"},
		{"status", "-o", "name"},
		{"status", "--all"}, {"status", "--module", promotedModule}, {"status", "--version", promotedVersion(0)},
		{"status", "-o", "json"},
	} {
		if err := w.measureRuns(ctx, strings.Join(args, " "), runsPerCommand, args...); err != nil {
			return err
		}
	}
	if err := w.measureImages(ctx); err != nil {
		return err
	}
	return w.measurePage(ctx)
}

// etcdKey returns the key of a Kyma in etcd.
func etcdKey(i int) []byte {
	return []byte("/registry/operator.kyma-project.io/kymas/" + sample.Namespace + "/" + runtimeID(i))
}

// copyKymas copies Kymas in etcd until etcd contains options.Seen Kymas. It returns the average size of a Kyma in
// bytes.
func (w *world) copyKymas(ctx context.Context) (float64, error) {
	etcd := etcdGateway{w.kcp.Etcd()}
	originals := make([][]byte, w.Runtimes)
	bytes := 0
	for i := range originals {
		data, err := etcd.get(ctx, etcdKey(i))
		if err != nil {
			return 0, err
		}
		if data, err = breakSomeKymas(i, data); err != nil {
			return 0, err
		}
		if err := etcd.put(ctx, etcdKey(i), data); err != nil {
			return 0, err
		}
		originals[i] = data
		bytes += len(data)
	}
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := w.Runtimes; i < w.Seen; i++ {
		group.Go(func() error {
			original := i % w.Runtimes
			data := strings.ReplaceAll(string(originals[original]), runtimeID(original), runtimeID(i))
			data = uid.ReplaceAllString(data, fmt.Sprintf(`"uid":"00000000-0000-4000-8000-%012d"`, i))
			return etcd.put(within, etcdKey(i), []byte(data))
		})
	}
	return float64(bytes / w.Runtimes), group.Wait()
}

var uid = regexp.MustCompile(`"uid":"[0-9a-f-]{36}"`)

// breakSomeKymas marks every twentieth Kyma as silent, and breaks a module in every fiftieth Kyma.
func breakSomeKymas(i int, data []byte) ([]byte, error) {
	if i%20 != 7 && i%50 != 3 {
		return data, nil
	}
	var kyma map[string]any
	if err := json.Unmarshal(data, &kyma); err != nil {
		return nil, fmt.Errorf("read Kyma %s in etcd: %w", runtimeID(i), err)
	}
	status, _ := kyma["status"].(map[string]any)
	modules, _ := status["modules"].([]any)
	conditions, _ := status["conditions"].([]any)
	if i%50 == 3 && len(modules) > 0 {
		modules[0].(map[string]any)["state"] = "Error"
		modules[0].(map[string]any)["message"] = "not ready after 10m0s: Deployment kyma-system/operator has 0 of 1 available replicas"
	}
	for _, c := range conditions {
		c := c.(map[string]any)
		switch {
		case i%20 == 7 && c["type"] == "Reporting":
			c["status"], c["reason"], c["message"] = "False", "Silent", "the runtime has not reported for 30m0s"
		case c["type"] == "Ready":
			c["status"], c["reason"], c["message"] = "False", "Error", "not all is well"
		}
	}
	status["state"] = "Error"
	if runtime, is := status["runtime"].(map[string]any); is {
		delete(runtime, "healthyUntil")
		delete(runtime, "running")
	}
	return json.Marshal(kyma)
}

// commandUsage is the resource usage of one run of a command.
type commandUsage struct {
	wall, cpu, server time.Duration
	peak, read        int64
	lines             int
}

// measureCommand runs a kcp-publisher command and measures it.
func (w *world) measureCommand(ctx context.Context, args ...string) (commandUsage, error) {
	server, started := w.cpu("kube-apiserver"), time.Now()
	cmd := exec.CommandContext(ctx, w.binaries.Publisher, append(args, "--kubeconfig", w.kcp.Kubeconfig())...)
	var problems strings.Builder
	cmd.Stderr = &problems
	output, err := cmd.StdoutPipe()
	if err != nil {
		return commandUsage{}, err
	}
	if err := cmd.Start(); err != nil {
		return commandUsage{}, err
	}
	var s commandUsage
	for lines := bufio.NewReader(output); err == nil; {
		if _, err = lines.ReadSlice('\n'); err == nil || errors.Is(err, bufio.ErrBufferFull) {
			s.lines, err = s.lines+1, nil
		}
	}
	// The counters of a terminated process can be read until Wait releases it.
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		return commandUsage{}, fmt.Errorf("wait for %s: %w", args, err)
	}
	s.wall = time.Since(started)
	if counts, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", cmd.Process.Pid)); err == nil {
		_, _ = fmt.Sscanf(string(counts), "rchar: %d", &s.read)
	}
	if err := cmd.Wait(); err != nil {
		return commandUsage{}, fmt.Errorf("%s: %w: %s", args, err, problems.String())
	}
	s.cpu, s.server = cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime(), w.cpu("kube-apiserver")-server
	if usage, is := cmd.ProcessState.SysUsage().(*syscall.Rusage); is {
		s.peak = usage.Maxrss << 10
	}
	return s, nil
}

// measureImages measures the search for an image that runs in all runtimes. The first search renders all module
// versions.
func (w *world) measureImages(ctx context.Context) error {
	from := net.JoinHostPort(publisherHost, w.registry.port) + "/" + fleetPath
	args := []string{
		"images", "--image", "example.org/" + promotedModule, "--from", from,
		"--trust", filepath.Join(w.keys(), "root.json"), "--cache", filepath.Join(w.dir, "images"),
	}
	if err := w.measureRuns(ctx, "images --image, first search", 1, args...); err != nil {
		return err
	}
	return w.measureRuns(ctx, "images --image", runsPerCommand, args...)
}

// measureRuns measures several runs of a command. The results contain the median.
func (w *world) measureRuns(ctx context.Context, name string, runs int, args ...string) error {
	var all []commandUsage
	for range runs {
		s, err := w.measureCommand(ctx, args...)
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b commandUsage) int { return int(a.wall - b.wall) })
	s, what := all[len(all)/2], "`"+name+"`"
	w.add(s.wall.Seconds(), seconds, what, fmt.Sprintf("%d lines; fastest %.1f s", s.lines, all[0].wall.Seconds()))
	w.add(float64(s.cpu.Milliseconds()), cpuMillis, what, "")
	w.add(float64(s.server.Milliseconds()), cpuMillis, what+": kube-apiserver", "")
	w.add(float64(s.read), size, what+": bytes read", "as read, including compressed responses")
	w.add(float64(s.peak), size, what+": peak of memory", "")
	return nil
}

// measurePage starts the web page and measures the time until it shows a runtime.
func (w *world) measurePage(ctx context.Context) (err error) {
	log := filepath.Join(w.dir, "ui.log")
	started := time.Now()
	page, err := start(log, w.binaries.Publisher,
		[]string{"ui", "--kubeconfig", w.kcp.Kubeconfig(), "--bind-address", "127.0.0.1:0"}, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, page.stop(syscall.SIGTERM)) }()
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	browser := &http.Client{Jar: jar, Timeout: time.Minute}
	address, bytes := "", 0
	err = w.waitUntil(ctx, "the page shows a runtime", func() (bool, string) {
		if address == "" {
			address = pageAddress.FindString(page.tail(1 << 16))
		}
		if address == "" {
			return !page.running(), page.tail(1 << 12)
		}
		var row bool
		row, bytes, err = firstRow(ctx, browser, address)
		return row, fmt.Sprint(err)
	})
	if err == nil && !page.running() {
		err = fmt.Errorf("the UI process exited: %s", page.tail(1<<12))
	}
	if err != nil {
		return err
	}
	w.add(time.Since(started).Seconds(), seconds, "start of the page -> its first row",
		strconv.Itoa(bytes)+" bytes of HTML")
	if err := w.waitUntil(ctx, "the page has read the whole fleet", func() (bool, string) {
		all, err := readAll(ctx, browser, address)
		return all, fmt.Sprint(err)
	}); err != nil {
		return err
	}
	w.add(time.Since(started).Seconds(), seconds, "start of the page -> whole fleet is read", "")
	again := time.Now()
	for range 10 {
		if _, _, err := firstRow(ctx, browser, address); err != nil {
			return err
		}
	}
	w.add(time.Since(again).Seconds()/10*1000, "ms", "first screen of the running page", "mean of 10")
	used, err := process.UsageOf(page.pid())
	if err != nil {
		return err
	}
	w.add(used.CPU.Seconds()*1000, cpuMillis, "CPU of the page since its start", "")
	w.add(float64(used.Resident), size, "memory of the page", "")
	w.add(float64(used.Peak), size, "memory of the page: its peak", "")
	return nil
}

var pageAddress = regexp.MustCompile(`http://127\.0\.0\.1:\d+/\?token=\S+`)

// firstRow reports whether the first screen of the web page shows a runtime.
func firstRow(ctx context.Context, browser *http.Client, address string) (bool, int, error) {
	status, page, err := screen(ctx, browser, address)
	return status == http.StatusOK && strings.Contains(page, "runtime-0"), len(page), err
}

// readAll reports whether the web page has read the whole fleet.
func readAll(ctx context.Context, browser *http.Client, address string) (bool, error) {
	status, page, err := screen(ctx, browser, address)
	return status == http.StatusOK && !strings.Contains(page, `id="reading"`), err
}

func screen(ctx context.Context, browser *http.Client, address string) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, "", err
	}
	answer, err := browser.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(data), err
}
