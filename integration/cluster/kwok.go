package cluster

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// stages is the configuration of kwok: the status that kwok writes for workloads. A workload with the annotation
// kyma-pull.dev/simulate: broken never becomes ready.
//
//go:embed stages.yaml
var stages []byte

type kwok struct {
	cmd    *exec.Cmd
	log    *os.File
	reaper *reaper
}

// startKwok starts kwok and registers the process with the reaper.
func startKwok(path string, r *reaper, kubeconfig string, measured bool) (*kwok, error) {
	config := filepath.Join(r.dir, "kwok.yaml")
	if err := os.WriteFile(config, stages, 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(r.dir, "kwok.log"))
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, "--kubeconfig", kubeconfig, "--config", config, "--manage-all-nodes=false",
		"--manage-single-node=none", "--enable-crds=", "--server-address=127.0.0.1:0")
	cmd.Env = append(os.Environ(), settings(measured)...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("run %s: %w", path, err), log.Close())
	}
	k := &kwok{cmd: cmd, log: log, reaper: r}
	if err := r.record("kwok", cmd.Process.Pid); err != nil {
		return nil, errors.Join(fmt.Errorf("record the process of kwok: %w", err), k.stop())
	}
	return k, nil
}

func (k *kwok) stop() error {
	if err := k.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("stop kwok: %w", err)
	}
	_ = k.cmd.Wait() // an error is expected after the signal
	return errors.Join(k.reaper.forget("kwok"), k.log.Close())
}
