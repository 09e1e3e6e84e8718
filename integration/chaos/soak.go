package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// faults lists the kinds of steps that Calm removes from a plan.
var faults = []Kind{
	KillPublisher, KillAgent, StopControlAPI, StopRuntimeAPI, StopRegistry, SlowRegistry, FailRegistry, LoseAnswers,
	FillRegistry, FillCache, LoseBundles,
	RestoreRegistry, CutRuntime, TakeLease, DeleteLease, HangWay, ResetWay, SlowWay, ForgetWay,
	RefuseCommit, RefuseWrites, ReplaceCA,
}

// Calm returns a plan without faults, because a restart after a fault would hide a memory leak.
func Calm(plan []Step) []Step {
	return slices.DeleteFunc(slices.Clone(plan), func(s Step) bool { return slices.Contains(faults, s.Kind) })
}

// maxSamples limits the number of samples, and minSampleInterval is the minimum interval between two samples.
const (
	maxSamples        = 360
	minSampleInterval = 2 * time.Second
)

// Growth per hour that does not exceed these values is ignored.
const (
	leastBytes      = 8 << 20
	leastGoroutines = 20
	leastFiles      = 20
)

// soak collects samples of resource usage.
type soak struct {
	control *http.Client // nil until the first sample
	metrics string       // metrics address of the control plane's API server

	mu     sync.Mutex // guards series
	series map[string]*Series
}

func (s *soak) add(of Series, value float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.series[of.Name] == nil {
		s.series[of.Name] = &of
	}
	s.series[of.Name].Values = append(s.series[of.Name].Values, value)
}

// trends returns the trends of all samples, sorted by name.
func (s *soak) trends() (all []Trend, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, series := range s.series {
		trend, bad := series.Judge()
		if err = errors.Join(err, bad); bad == nil {
			all = append(all, trend)
		}
	}
	slices.SortFunc(all, func(a, b Trend) int { return strings.Compare(a.Name, b.Name) })
	return all, err
}

// soak executes the plan, samples resource usage, and checks the trends.
func (s *stage) soak(ctx context.Context, length time.Duration) (err error) {
	collected := &soak{series: map[string]*Series{}}
	sampling, stop := context.WithCancel(ctx)
	var samples sync.WaitGroup
	samples.Go(func() { s.sampleAll(sampling, collected, length) })
	s.execute(ctx)
	stop()
	samples.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if s.trends, err = collected.trends(); err != nil {
		return err
	}
	for _, t := range s.trends {
		s.checker.count(Flat)
		if !t.Flat() {
			s.checker.Break(s.since(), Flat, "%s", t)
		}
	}
	return nil
}

// sampleAll samples the resource usage of all programs until ctx ends.
func (s *stage) sampleAll(ctx context.Context, soak *soak, length time.Duration) {
	tick := time.NewTicker(max(length/maxSamples, minSampleInterval))
	defer tick.Stop()
	for {
		if err := s.sampleOnce(ctx, soak); err != nil && ctx.Err() == nil {
			s.story.Add("a sample is missing: %v", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// heldResources lists the metrics that a soak checks for growth. go_memstats_next_gc_bytes is twice the live heap after
// a garbage collection.
var heldResources = []struct {
	metric string
	scale  float64
	of     Series
}{
	{"go_memstats_next_gc_bytes", 0.5, Series{Name: "heap after GC", Unit: MiB, Least: leastBytes}},
	{"process_resident_memory_bytes", 1, Series{Name: "RSS", Unit: MiB, Least: 2 * leastBytes}},
	{"go_goroutines", 1, Series{Name: "goroutines", Least: leastGoroutines}},
	{"process_open_fds", 1, Series{Name: "file descriptors", Least: leastFiles}},
}

func (s *stage) sampleOnce(ctx context.Context, soak *soak) (problems error) {
	for _, p := range s.programs {
		values, err := readMetrics(ctx, http.DefaultClient, "http://"+p.metrics+"/metrics")
		if err != nil {
			problems = errors.Join(problems, fmt.Errorf("%s: %w", p.name, err))
			continue
		}
		for _, h := range heldResources {
			value, known := values[h.metric]
			if !known {
				problems = errors.Join(problems, fmt.Errorf("%s does not export metric %s", p.name, h.metric))
				continue
			}
			of := h.of
			of.Name = p.name + ": " + of.Name
			soak.add(of, value*h.scale)
		}
	}
	bytes, files, err := sizeOf(filepath.Join(s.registry.Dir(), "data"))
	if err != nil {
		problems = errors.Join(problems, err)
	} else {
		soak.add(Series{Name: "registry: bytes", Unit: MiB, Grows: true}, float64(bytes))
		soak.add(Series{Name: "registry: files", Grows: true}, float64(files))
	}
	return errors.Join(problems, s.sampleControl(ctx, soak))
}

func (s *stage) sampleControl(ctx context.Context, soak *soak) error {
	if soak.control == nil {
		config, err := clientcmd.BuildConfigFromFlags("", s.fleet.ControlKubeconfig())
		if err != nil {
			return err
		}
		if soak.control, err = rest.HTTPClientFor(config); err != nil {
			return err
		}
		soak.metrics = config.Host + "/metrics"
	}
	values, err := readMetrics(ctx, soak.control, soak.metrics)
	if err != nil {
		return fmt.Errorf("the control plane's API server: %w", err)
	}
	objects, bytes := 0.0, 0.0
	for name, value := range values {
		switch {
		case strings.HasPrefix(name, "apiserver_storage_size_bytes"):
			bytes += value
		case isOwnObjects(name):
			objects += value
		}
	}
	soak.add(Series{Name: "etcd: bytes", Unit: MiB, Grows: true}, bytes)
	soak.add(Series{Name: "etcd: objects of the fleet", Grows: true}, objects)
	return nil
}

func isOwnObjects(name string) bool {
	for _, metric := range []string{"apiserver_storage_objects{", "apiserver_resource_objects{"} {
		if strings.HasPrefix(name, metric) && strings.Contains(name, "kyma") {
			return true
		}
	}
	return false
}

// readMetrics returns the metrics at an address. A key is a metric's name with its labels.
func readMetrics(ctx context.Context, by *http.Client, address string) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	response, err := by.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s returned %s", address, response.Status)
	}
	all, lines := map[string]float64{}, bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, text, found := cutLast(lines.Text())
		value, err := strconv.ParseFloat(text, 64)
		if found && err == nil && !strings.HasPrefix(name, "#") {
			all[name] = value
		}
	}
	return all, lines.Err()
}

func cutLast(line string) (before, after string, found bool) {
	at := strings.LastIndexByte(line, ' ')
	if at < 0 {
		return line, "", false
	}
	return line[:at], line[at+1:], true
}

// sizeOf returns the total size and number of the files in a folder. Files can be removed during the count.
func sizeOf(dir string) (bytes, files int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		bytes, files = bytes+info.Size(), files+1
		return nil
	})
	return bytes, files, err
}
