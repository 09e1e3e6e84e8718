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
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/integration/bench/process"
)

type results struct {
	Applications int       `json:"applications"`
	Time         time.Time `json:"time"`
	Version      string    `json:"version"`
	Machine      string    `json:"machine"`
	// Load is the one-minute load average at the start of the run.
	Load string `json:"load"`
	// The keys in these maps are the two products' names. Times are in seconds, and memory is in bytes.
	Settings map[string]string             `json:"settings"`
	Figures  map[string]map[string]float64 `json:"figures"`
	// Reported describes how many modules are Ready in the control plane, such as "3 of 3".
	Reported string `json:"reported"`
}

// unit is the unit of a printed figure.
type unit int

const (
	seconds unit = iota
	number
	perMinute
	millicores
	size
	percent
)

// rows lists the rows of the table in order.
var rows = []struct {
	key, what string
	unit      unit
	goal      float64 // maximum ratio to Flux's figure; 0 if the row has no goal
}{
	{"install", "install: start of the programs to all Ready", seconds, 0.35},
	{"install first", "first application Ready", seconds, 0.8},
	{"install CPU", "CPU of the programs", seconds, 0.2},
	{"install API server CPU", "CPU of the API server", seconds, 0},
	{"install writes", "API writes", number, 0},
	{"install dry runs", "dry runs", number, 0},
	{"install requests", "API requests", number, 0},
	{"install others", "others' share of the machine", percent, 0},
	{"idle CPU", "idle: CPU", millicores, 0},
	{"idle requests", "API requests", perMinute, 0},
	{"idle writes", "API writes", perMinute, 0},
	{"anonymous", "memory, anonymous", size, 0},
	{"file", "memory, file", size, 0},
	{"peak", "memory, at the peak", size, 0},
	{"drift", "20 Services deleted: all back", seconds, 0},
	{"drift CPU", "CPU of the programs", seconds, 0},
	{"drift API server CPU", "CPU of the API server", seconds, 0},
	{"revision", "new revision of every application: all Ready", seconds, 0.2},
	{"revision first", "first application Ready", seconds, 0},
	{"revision CPU", "CPU of the programs", seconds, 0},
	{"revision API server CPU", "CPU of the API server", seconds, 0},
	{"revision writes", "API writes", number, 0},
	{"revision others", "others' share of the machine", percent, 0},
	{"restart", "restart to steady", seconds, 0.1},
	{"restart CPU", "CPU of the programs", seconds, 0},
	{"restart API server CPU", "CPU of the API server", seconds, 0},
	{"restart requests", "API requests", number, 0},
	{"restart others", "others' share of the machine", percent, 0},
}

func newResults(o options) *results {
	version := "unknown"
	if output, err := exec.Command("git", "describe", "--tags", "--always", "--dirty").Output(); err == nil {
		version = strings.TrimSpace(string(output))
	}
	return &results{
		Applications: o.Apps, Time: time.Now().UTC().Truncate(time.Second), Version: version,
		Load:     process.LoadAverage(),
		Machine:  fmt.Sprintf("%d cores, %s %s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version()),
		Settings: map[string]string{}, Figures: map[string]map[string]float64{},
	}
}

func (r *results) take(b *bench) {
	r.Settings[b.name()], r.Figures[b.name()] = b.settings(), b.figures
	if b.reported != "" {
		r.Reported = b.reported
	}
}

// ratio returns the agent's figure divided by Flux's figure. It returns false if a figure is missing or Flux's is 0.
func (r *results) ratio(key string) (float64, bool) {
	if r == nil {
		return 0, false
	}
	own, measured := r.Figures[(&pullProduct{}).name()][key]
	other, too := r.Figures[(&fluxProduct{}).name()][key]
	return own / other, measured && too && other != 0
}

func (u unit) text(value float64) string {
	switch u {
	case seconds:
		return fmt.Sprintf("%.2f s", value)
	case perMinute:
		return fmt.Sprintf("%.0f/min", value)
	case millicores:
		return fmt.Sprintf("%.1f millicores", value)
	case percent:
		return fmt.Sprintf("%.0f %%", value)
	case size:
		return fmt.Sprintf("%.0f MiB", value/(1<<20))
	}
	return fmt.Sprintf("%.0f", value)
}

// print writes the table, with ratios to the previous run.
func (r *results) print(out io.Writer, before *results) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%d applications, measured at %s, version %s, %s, load %s.\n\n", r.Applications,
		r.Time.Format(time.RFC3339), r.Version, r.Machine, r.Load)
	names := []string{(&pullProduct{}).name(), (&fluxProduct{}).name()}
	for _, name := range names {
		fmt.Fprintf(&text, "- %s: %s.\n", name, r.Settings[name])
	}
	last := "ratio before"
	if before != nil {
		last = fmt.Sprintf("ratio before (%s, %s)", before.Time.Format(time.DateOnly), before.Version)
	}
	fmt.Fprintf(&text, "\n| measured | %s | %s | ratio | goal | %s |\n|---|---|---|---|---|---|\n", names[0], names[1],
		last)
	for _, row := range rows {
		cells := []string{row.what}
		for _, name := range names {
			cell := ""
			if value, measured := r.Figures[name][row.key]; measured {
				cell = row.unit.text(value)
			}
			cells = append(cells, cell)
		}
		now, then, goal := "", "", ""
		if ratio, known := r.ratio(row.key); known && row.unit != percent {
			now = fmt.Sprintf("%.2f", ratio)
		}
		if row.goal != 0 {
			goal = fmt.Sprintf("%.2f", row.goal)
		}
		if ratio, known := before.ratio(row.key); known && row.unit != percent {
			then = fmt.Sprintf("%.2f", ratio)
		}
		fmt.Fprintf(&text, "| %s |\n", strings.Join(append(cells, now, goal, then), " | "))
	}
	fmt.Fprintf(&text, "| modules Ready in the control plane | %s | | | all | |\n", r.Reported)
	_, err := io.WriteString(out, text.String())
	return err
}

// write prints the table, and writes the table and the figures to a folder.
func (r *results) write(folder string, out io.Writer) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	base := filepath.Join(folder, fmt.Sprintf("flux-%d", r.Applications))
	before, err := readResults(base + ".json")
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	table, err := os.Create(base + ".md")
	if err != nil {
		return err
	}
	fmt.Fprintln(out)
	return errors.Join(r.print(io.MultiWriter(out, table), before), table.Close(),
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
