package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

type unit string

const (
	seconds    unit = "s"
	times      unit = "times"
	perSecond  unit = "/s"
	perMinute  unit = "/min"
	millicores unit = "millicores"
	cpuMillis  unit = "CPU ms"
	size       unit = "bytes"
	number     unit = "count"
)

// figure is one row of the table.
type figure struct {
	Stage string  `json:"stage"`
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Unit  unit    `json:"unit"`
	// Note is a remark in the table.
	Note string `json:"note,omitempty"`
}

// stageCost is the CPU usage of the machine during a stage.
type stageCost struct {
	Stage   string  `json:"stage"`
	Seconds float64 `json:"seconds"`
	// CPU contains CPU seconds by process.
	CPU map[string]float64 `json:"cpu"`
	// Others is the share of the machine's CPU time that other programs used.
	Others float64 `json:"others"`
	Load   string  `json:"load"`
}

type results struct {
	Runtimes int         `json:"runtimes"`
	Time     time.Time   `json:"time"`
	Version  string      `json:"version"`
	Machine  string      `json:"machine"`
	Options  options     `json:"options"`
	Figures  []figure    `json:"figures"`
	Stages   []stageCost `json:"stages"`
	// Failed lists the failed stages, whose figures are not comparable.
	Failed []string `json:"failed,omitempty"`
}

func newResults(o options) *results {
	version := "unknown"
	if output, err := exec.Command("git", "describe", "--tags", "--always", "--dirty").Output(); err == nil {
		version = strings.TrimSpace(string(output))
	}
	return &results{
		Runtimes: o.Runtimes, Time: time.Now().UTC().Truncate(time.Second), Version: version, Options: o,
		Machine: fmt.Sprintf("%d cores, %s %s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version()),
	}
}

func (w *world) add(value float64, of unit, what, note string) {
	f := figure{Stage: w.stage, What: what, Value: value, Unit: of, Note: note}
	w.results.Figures = append(w.results.Figures, f)
	w.say("%s: %s", what,
		strings.Join(slices.DeleteFunc([]string{f.text(), note}, func(s string) bool { return s == "" }), "; "))
}

// text returns the figure in readable form.
func (f figure) text() string {
	switch f.Unit {
	case seconds:
		return fmt.Sprintf("%.1f s", f.Value)
	case times:
		return fmt.Sprintf("%.2f times", f.Value)
	case size:
		if f.Value >= 1<<20 {
			return fmt.Sprintf("%.0f MiB", f.Value/(1<<20))
		}
		return fmt.Sprintf("%.1f KiB", f.Value/(1<<10))
	case number:
		return strings.TrimSuffix(fmt.Sprintf("%.2f", f.Value), ".00")
	case perSecond, perMinute:
		return fmt.Sprintf("%.1f%s", f.Value, f.Unit)
	}
	return fmt.Sprintf("%.1f %s", f.Value, f.Unit)
}

// previousFigure returns the figure in r with f's stage and name, or nil.
func (r *results) previousFigure(f figure) *figure {
	if r == nil {
		return nil
	}
	for i := range r.Figures {
		if l := &r.Figures[i]; l.Stage == f.Stage && l.What == f.What && l.Unit == f.Unit {
			return l
		}
	}
	return nil
}

// write prints the table, and writes it with the figures to a folder.
func (r *results) write(folder string, out io.Writer) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	base := filepath.Join(folder, fmt.Sprintf("fleet-%d", r.Runtimes))
	if r.Options.Notifications {
		base += "-notified"
	}
	before, err := readResults(base + ".json")
	if len(r.Options.Only)+len(r.Failed) > 0 {
		base += "-part" // so that later complete runs are not compared with this partial run
	}
	if err != nil {
		return err
	}
	var text strings.Builder
	r.markdown(&text, before)
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, "\n"+text.String())
	return errors.Join(err, os.WriteFile(base+".md", []byte(text.String()), 0o644),
		os.WriteFile(base+".json", append(data, '\n'), 0o644))
}

// readResults returns the results that a previous run wrote, or nil if its file does not exist.
func readResults(path string) (*results, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := &results{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("%s: %w: remove the file to start a new comparison", path, err)
	}
	return r, nil
}

// processes lists the names of the measured programs in the order of the results. The name "agents" stands for the
// benchmark's own process, which runs all agents.
var processes = []string{"publisher", "registry", "kube-apiserver", "etcd", "agents"}
