package chaos

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// The test builds a small program with the same overlay as ShiftablePrograms, and then shifts its clock.
func TestClockOfARunningProgramIsShifted(t *testing.T) {
	dir := t.TempDir()
	overlay, err := writeOverlay(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	source := `package main
import ("bufio"; "encoding/json"; "os"; "time")
func main() {
	began := time.Now()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		json.NewEncoder(os.Stdout).Encode(struct{ Wall time.Time; Since time.Duration }{time.Now(), time.Since(began)})
	}
}`
	main := filepath.Join(dir, "main.go")
	if err := os.WriteFile(main, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", filepath.Join(dir, "clock"),
		main)
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	t.Setenv(envClocks, dir)
	p := program{metrics: "127.0.0.1:8080"}
	if err := p.setClock(-72 * time.Hour); err != nil {
		t.Fatal(err)
	}
	clock := exec.CommandContext(t.Context(), filepath.Join(dir, "clock"), "--metrics-bind-address", "0",
		"--metrics-bind-address", p.metrics)
	in, err := clock.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := clock.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := clock.Start(); err != nil {
		t.Fatal(err)
	}
	answers := json.NewDecoder(out)
	for _, by := range []time.Duration{-72 * time.Hour, 2 * time.Hour, 0} {
		if err := p.setClock(by); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		for {
			if _, err := in.Write([]byte("\n")); err != nil {
				t.Fatal(err)
			}
			var got struct {
				Wall  time.Time
				Since time.Duration
			}
			if err := answers.Decode(&got); err != nil {
				t.Fatal(err)
			}
			if off := time.Until(got.Wall) - by; off.Abs() < time.Minute && got.Since >= 0 &&
				got.Since < time.Minute {
				break
			}
			if ctx.Err() != nil {
				t.Fatalf("clock shift %s: program reports %s, %s after its start", by, got.Wall, got.Since)
			}
		}
		cancel()
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := clock.Wait(); err != nil {
		t.Error(err)
	}
}
