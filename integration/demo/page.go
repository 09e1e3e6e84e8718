package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// servePage runs `kcp-publisher ui` until ctx ends, and returns the output line with the URL.
func (s *demoFleet) servePage(ctx context.Context) (string, error) {
	log, err := os.Create(filepath.Join(s.dir, "ui.log"))
	if err != nil {
		return "", err
	}
	page := exec.CommandContext(ctx, s.fleet.Binaries().Publisher, "ui", "--kubeconfig",
		filepath.Join(s.dir, "kcp.kubeconfig"), "--bind-address", "127.0.0.1:0")
	page.Stderr = log
	stdout, err := page.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := page.Start(); err != nil {
		return "", fmt.Errorf("start the fleet UI: %w", err)
	}
	lines := bufio.NewReader(stdout)
	line, err := lines.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("the fleet UI did not start: %w: see %s", err, log.Name())
	}
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		_ = page.Wait() // ctx kills the UI when the demo ends
		_ = log.Close()
	}()
	return strings.TrimSpace(line), nil
}
