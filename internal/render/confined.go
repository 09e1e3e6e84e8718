package render

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/bounded"
)

const (
	defaultCPUTime     = 30 * time.Second
	defaultMemoryBytes = 512 << 20
	maxAnswerBytes     = bundle.MaxLayerBytes
	// slowdown is the ratio between the limits for elapsed time and CPU time. On a busy node, an agent can get as
	// little CPU as its chart requests, a twentieth of a processor.
	slowdown = 20
	// maxStderrBytes limits the child's captured stderr. If a Go program crashes, stderr starts with the reason.
	maxStderrBytes = 16 << 10
)

// ErrNotRun means that rendering was not started or was interrupted, so callers can retry. The content is not the
// cause.
var ErrNotRun = errors.New("rendering did not run")

// Confined renders content in a child process with limited time and memory. It is safe for concurrent use.
type Confined struct {
	// Command starts the child process, which must only call Child. The agent uses its own executable with a hidden
	// subcommand.
	Command []string
	// CPUTime limits the CPU time for one rendering. Defaults to 30s. Unlike the elapsed time, the CPU time depends
	// only on the content and not on other programs.
	CPUTime time.Duration
	// MemoryBytes limits the child's memory. Defaults to 512 MiB.
	MemoryBytes int64
}

// childOutput is the child's output. Exactly one of its fields is set.
type childOutput struct {
	Objects json.RawMessage `json:"objects,omitempty"`
	Refused string          `json:"refused,omitempty"`
}

// Render is like the function Render, but renders charts and kustomizations in a child process. ErrNotRun and context
// errors are temporary. The content causes all other errors.
func (c Confined) Render(ctx context.Context, in Input) ([]*unstructured.Unstructured, error) {
	if in.Packed != v1beta2.HelmChart && in.Packed != v1beta2.Kustomize {
		return Render(in)
	}
	if c.CPUTime == 0 {
		c.CPUTime = defaultCPUTime
	}
	if c.MemoryBytes == 0 {
		c.MemoryBytes = defaultMemoryBytes
	}
	if len(c.Command) == 0 {
		return nil, in.wrapError(fmt.Errorf("%w: no command is configured", ErrNotRun))
	}
	if len(in.Content) > bundle.MaxLayerBytes {
		return nil, in.wrapError(fmt.Errorf("content is %d bytes, must be at most %d", len(in.Content),
			bundle.MaxLayerBytes))
	}
	question, err := json.Marshal(limits{c.MemoryBytes, uint64(math.Ceil(c.CPUTime.Seconds()))})
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	output, err := c.runChild(ctx, append(question, body...))
	if err != nil {
		return nil, in.wrapError(err)
	}
	return parseOutput(in, output)
}

// runChild starts the child with question as its input and returns its output.
func (c Confined) runChild(ctx context.Context, question []byte) ([]byte, error) {
	limited, cancel := context.WithTimeout(ctx, slowdown*c.CPUTime)
	defer cancel()
	child := exec.CommandContext(limited, c.Command[0], c.Command[1:]...)
	output := &bounded.Buffer{MaxBytes: maxAnswerBytes, Full: cancel}
	complaint := &bounded.Buffer{MaxBytes: maxStderrBytes}
	child.Stdin, child.Stdout, child.Stderr = bytes.NewReader(question), output, complaint
	child.Env = []string{}
	child.WaitDelay = time.Second
	child.SysProcAttr = dieWithParent()
	// The kernel kills the child when the thread that started it ends, so the thread must outlive the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := child.Start(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotRun, err)
	}
	err := child.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case output.HasOverflowed():
		return nil, fmt.Errorf("rendering returned more than %d MiB of objects", maxAnswerBytes>>20)
	case child.ProcessState == nil:
		return nil, fmt.Errorf("%w: %w", ErrNotRun, err)
	case child.ProcessState.ExitCode() == exitCPUTime, err != nil && hasUsedUp(child.ProcessState, c.CPUTime):
		return nil, fmt.Errorf("rendering took longer than %s of CPU time and was stopped", c.CPUTime)
	case limited.Err() != nil:
		return nil, fmt.Errorf("%w: not finished after %s, because other programs use the processors", ErrNotRun,
			slowdown*c.CPUTime)
	case !child.ProcessState.Success():
		return nil, c.describeFailure(child.ProcessState, complaint.String())
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrNotRun, err)
	}
	return output.Bytes(), nil
}

// exitCPUTime is the child's exit code if it has used up its CPU time.
const exitCPUTime = 3

// hasUsedUp reports whether a child that did not exit by itself was stopped because of its CPU time. The kernel's limit
// and the recorded time can differ slightly.
func hasUsedUp(child *os.ProcessState, most time.Duration) bool {
	return child.UserTime()+child.SystemTime() > most*9/10
}

// describeFailure returns the reason why a child failed. complaint is the child's error output.
func (c Confined) describeFailure(child *os.ProcessState, complaint string) error {
	first, _, _ := strings.Cut(complaint, "\n")
	status, _ := child.Sys().(syscall.WaitStatus)
	switch {
	case status.Signaled() && status.Signal() == syscall.SIGKILL:
		return fmt.Errorf("%w: the render process was killed (out of memory on the node?)", ErrNotRun)
	case child.ExitCode() == 1: // the function Child returned an error
		return fmt.Errorf("%w: %s", ErrNotRun, shortenMessage(first))
	case strings.Contains(complaint, "stack exceeds"):
		return errors.New("rendering exceeded the stack limit because of endless recursion or nesting")
	case strings.Contains(complaint, "out of memory"), strings.Contains(complaint, "cannot allocate memory"),
		peakBytes(child) > c.MemoryBytes:
		return errTooMuchMemory(c.MemoryBytes)
	}
	return fmt.Errorf("rendering crashed: %s", shortenMessage(first))
}

func parseOutput(in Input, output []byte) ([]*unstructured.Unstructured, error) {
	var a childOutput
	if err := json.Unmarshal(output, &a); err != nil {
		return nil, in.wrapError(fmt.Errorf("%w: read the child's output: %w", ErrNotRun, err))
	}
	if a.Refused != "" {
		return nil, errors.New(a.Refused)
	}
	// Unlike encoding/json, Kubernetes' decoder does not convert integers to float64.
	var contents []map[string]any
	if err := utiljson.Unmarshal(a.Objects, &contents); err != nil {
		return nil, in.wrapError(fmt.Errorf("%w: read the child's output: %w", ErrNotRun, err))
	}
	objects := make([]*unstructured.Unstructured, len(contents))
	for i, content := range contents {
		objects[i] = &unstructured.Unstructured{Object: content}
	}
	return objects, nil
}

func errTooMuchMemory(most int64) error {
	return fmt.Errorf("rendering needs more than %d MiB of memory", most>>20)
}
