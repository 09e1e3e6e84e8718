package registry

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/kyma-pull/kyma-pull/integration/loopback"
)

// EnvZot is the environment variable with the path of zot.
const EnvZot = "ZOT"

// ErrNoZot means that zot is not installed on this machine.
var ErrNoZot = errors.New("zot not found: set $" + EnvZot + " to the path of the program")

// Zot is a zot registry on the loopback address.
type Zot struct {
	address, dir, program string
	cmd                   *exec.Cmd
}

// StartZot starts zot with its data in dir. If $ZOT is not set, it unpacks the zot program from the gzip file packed.
// If configuration is nil, zot has no access control and does not collect garbage.
func StartZot(ctx context.Context, dir, packed string, configuration []byte) (*Zot, error) {
	z := &Zot{dir: dir, program: os.Getenv(EnvZot)}
	if z.program == "" {
		z.program = filepath.Join(dir, "zot")
		if err := unpack(packed, z.program); errors.Is(err, fs.ErrNotExist) {
			return nil, ErrNoZot
		} else if err != nil {
			return nil, fmt.Errorf("unpack zot: %w", err)
		}
	}
	var err error
	if z.address, err = loopback.Address(); err != nil {
		return nil, err
	}
	if err = z.configure(configuration); err != nil {
		return nil, err
	}
	return z, z.Resume(ctx)
}

// StartCollectingZot starts zot as docs/guides/registry.md requires, with continuous garbage collection of
// unreferenced manifests that are older than age.
func StartCollectingZot(ctx context.Context, dir, packed string, age time.Duration) (*Zot, error) {
	configuration, err := json.Marshal(map[string]any{"storage": map[string]any{
		"dedupe": false, "gc": true, "gcDelay": age.String(), "gcInterval": "1s", "gcMaxSchedulerDelay": "100ms",
		"retention": map[string]any{"delay": age.String(), "policies": []any{
			map[string]any{"repositories": []string{"**"}, "deleteUntagged": true, "deleteReferrers": true},
		}},
	}})
	if err != nil {
		return nil, err
	}
	return StartZot(ctx, dir, packed, configuration)
}

func (z *Zot) configure(configuration []byte) error {
	config := struct {
		Version string         `json:"distSpecVersion"`
		Storage map[string]any `json:"storage"`
		HTTP    map[string]any `json:"http"`
		Log     map[string]any `json:"log"`
	}{"1.1.1", map[string]any{"gc": false}, map[string]any{}, map[string]any{"level": "error"}}
	if configuration != nil {
		decoder := json.NewDecoder(bytes.NewReader(configuration))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&config); err != nil {
			return fmt.Errorf("decode zot's configuration: %w", err)
		}
	}
	host, port, err := net.SplitHostPort(z.address)
	if err != nil {
		return err
	}
	config.Storage["rootDirectory"], config.HTTP["address"], config.HTTP["port"] = z.Data(), host, port
	delete(config.HTTP, "tls")
	data, err := json.Marshal(config)
	if err != nil {
		return err
	}
	return os.WriteFile(z.config(), data, 0o600)
}

func unpack(packed, program string) error {
	file, err := os.Open(packed)
	if err != nil {
		return err
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(program, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, unzipped)
	return errors.Join(err, out.Close())
}

func (z *Zot) config() string { return filepath.Join(z.dir, "zot.json") }

// Host returns zot's host and port.
func (z *Zot) Host() string { return z.address }

// Data returns the folder with zot's repositories.
func (z *Zot) Data() string { return filepath.Join(z.dir, "data") }

// Stop stops zot. The data remains.
func (z *Zot) Stop() error {
	if z.cmd == nil {
		return nil
	}
	err := z.cmd.Process.Kill()
	_ = z.cmd.Wait() // returns the error "signal: killed"
	z.cmd = nil
	return err
}

// Resume starts zot again at the same address and waits until zot responds.
func (z *Zot) Resume(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(z.dir, "zot.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	z.cmd = exec.Command(z.program, "serve", z.config()) //nolint:gosec // the path comes from the test's environment
	z.cmd.Stdout, z.cmd.Stderr = log, log
	z.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := z.cmd.Start(); err != nil {
		z.cmd = nil
		return fmt.Errorf("start zot: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if status := z.ask(ctx); status == http.StatusOK || status == http.StatusUnauthorized {
			return nil
		}
		select {
		case <-ctx.Done():
			output, _ := os.ReadFile(log.Name())
			return errors.Join(fmt.Errorf("zot does not respond at %s: %s", z.address, strconv.Quote(string(output))),
				z.Stop())
		case <-tick.C:
		}
	}
}

func (z *Zot) ask(ctx context.Context) int {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+z.address+"/v2/", nil)
	if err != nil {
		return 0
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	response.Body.Close()
	return response.StatusCode
}
