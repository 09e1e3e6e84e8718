package render

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	defaultTimeout     = 30 * time.Second
	defaultMemoryBytes = 512 << 20
	// maxAnswerBytes bounds what is taken from the child: as much as content has before it is unpacked.
	maxAnswerBytes = bundle.MaxLayerBytes
	// maxComplaintBytes is enough of what a dying Go program writes to tell why: it says so at the beginning.
	maxComplaintBytes = 16 << 10
)

// ErrNotRun is what rendering fails with that never began, or was ended by something outside. It says nothing of the
// content.
var ErrNotRun = errors.New("rendering did not run")

// Confined renders in a child process, so that content can cost no more than the time and memory it is given. It may be
// used from many goroutines at once; every call has a child of its own, which is gone when the call returns.
type Confined struct {
	// Command starts a program that calls Child and nothing else: the agent's own, with its hidden command.
	Command []string
	// Timeout is how long rendering may take, 30s unless given.
	Timeout time.Duration
	// MemoryBytes is how much memory the child may have, 512 MiB unless given. The agent's program itself takes about 10
	// MiB of it.
	MemoryBytes int64
}

// limits is the first thing the child is told.
type limits struct {
	MemoryBytes int64
	CPUSeconds  uint64
}

// answer is all that the child says. One of both is set.
type answer struct {
	Objects json.RawMessage `json:"objects,omitempty"`
	Refused string          `json:"refused,omitempty"`
}

// Render is the function Render, confined where content is a program. Errors that are ErrNotRun, or the context's, may
// pass; all others are the content's, and come again.
func (c Confined) Render(ctx context.Context, in Input) ([]*unstructured.Unstructured, error) {
	if in.Packed != v1beta2.HelmChart && in.Packed != v1beta2.Kustomize {
		return Render(in)
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.MemoryBytes == 0 {
		c.MemoryBytes = defaultMemoryBytes
	}
	if len(c.Command) == 0 {
		return nil, in.named(fmt.Errorf("%w: no command is given for it", ErrNotRun))
	}
	if len(in.Content) > bundle.MaxLayerBytes {
		return nil, in.named(fmt.Errorf("content of %d bytes, at most %d", len(in.Content), bundle.MaxLayerBytes))
	}
	// The child's CPU time is bounded too, several cores' worth: it ends by itself if this process is stopped or gone.
	question, err := json.Marshal(limits{c.MemoryBytes, uint64(c.Timeout/time.Second)*4 + 1})
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	said, err := c.ask(ctx, append(question, body...))
	if err != nil {
		return nil, in.named(err)
	}
	return understood(in, said)
}

// ask runs the child. It gives what the child wrote, or why there is no sense in reading it.
func (c Confined) ask(ctx context.Context, question []byte) ([]byte, error) {
	limited, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	child := exec.CommandContext(limited, c.Command[0], c.Command[1:]...)
	said := &bounded.Buffer{MaxBytes: maxAnswerBytes, Full: cancel}
	complaint := &bounded.Buffer{MaxBytes: maxComplaintBytes}
	child.Stdin, child.Stdout, child.Stderr = bytes.NewReader(question), said, complaint
	child.Env = []string{}
	child.WaitDelay = time.Second
	child.SysProcAttr = dieWithParent()
	// The kernel takes the child for its thread's: it must not end before the child does.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := child.Start(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotRun, err)
	}
	err := child.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case said.Overflowed():
		return nil, fmt.Errorf("gives more than %d MiB of objects", maxAnswerBytes>>20)
	case limited.Err() != nil:
		return nil, fmt.Errorf("rendering took longer than %s and was stopped", c.Timeout)
	case child.ProcessState == nil:
		return nil, fmt.Errorf("%w: %w", ErrNotRun, err)
	case !child.ProcessState.Success():
		return nil, c.explain(child.ProcessState, complaint.String())
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrNotRun, err)
	}
	return said.Bytes(), nil
}

// explain tells why a child died, from its state and from what Go's runtime writes then. The rest of that is for
// nobody.
func (c Confined) explain(child *os.ProcessState, complaint string) error {
	first, _, _ := strings.Cut(complaint, "\n")
	status, _ := child.Sys().(syscall.WaitStatus)
	switch {
	case status.Signaled() && status.Signal() == syscall.SIGKILL:
		return fmt.Errorf("%w: the child was killed from outside, perhaps for want of memory on the node", ErrNotRun)
	case child.ExitCode() == 1: // Child gave an error
		return fmt.Errorf("%w: %s", ErrNotRun, shortened(first))
	case strings.Contains(complaint, "stack exceeds"):
		return errors.New("nests or calls itself without end")
	case strings.Contains(complaint, "out of memory"), strings.Contains(complaint, "cannot allocate memory"), peakBytes(child) > c.MemoryBytes:
		return errTooMuchMemory(c.MemoryBytes)
	}
	return fmt.Errorf("rendering crashed: %s", shortened(first))
}

func understood(in Input, said []byte) ([]*unstructured.Unstructured, error) {
	var a answer
	if err := json.Unmarshal(said, &a); err != nil {
		return nil, in.named(fmt.Errorf("%w: the child's answer: %w", ErrNotRun, err))
	}
	if a.Refused != "" {
		return nil, errors.New(a.Refused)
	}
	// Kubernetes' decoder, unlike Go's, keeps whole numbers whole.
	var contents []map[string]any
	if err := utiljson.Unmarshal(a.Objects, &contents); err != nil {
		return nil, in.named(fmt.Errorf("%w: the child's answer: %w", ErrNotRun, err))
	}
	objects := make([]*unstructured.Unstructured, len(contents))
	for i, content := range contents {
		objects[i] = &unstructured.Unstructured{Object: content}
	}
	return objects, nil
}
