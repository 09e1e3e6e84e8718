package render

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// maxStackBytes limits the stack, so endless recursion fails before the process runs out of memory.
	maxStackBytes = 64 << 20
	// hardShare defines the kernel's memory limit, which exceeds the child's own limit by 1/hardShare. The child can
	// thus report the problem itself.
	hardShare = 4
	// watchInterval is the interval at which the child checks its memory usage.
	watchInterval = 10 * time.Millisecond
)

// Child is the main function in the child process that Confined starts. It reads limits and an Input as JSON from in,
// and writes the objects or an error to out.
//
// It first limits the process's memory and CPU time, and prevents access to files, connections and programs.
func Child(in io.Reader, out io.Writer) error {
	// Discard Helm and kustomize warnings. Use UTC, because the local time zone depends on the node.
	log.SetOutput(io.Discard)
	time.Local = time.UTC
	questions := json.NewDecoder(bufio.NewReader(in))
	var l limits
	if err := questions.Decode(&l); err != nil {
		return fmt.Errorf("read limits: %w", err)
	}
	if l.MemoryBytes <= 0 || l.CPUSeconds == 0 {
		return errors.New("read limits: no limits found: this command is only for use by the agent")
	}
	if err := restrictProcess(l); err != nil {
		return fmt.Errorf("set limits: %w", err)
	}
	debug.SetMaxStack(maxStackBytes)
	debug.SetMemoryLimit(l.MemoryBytes - l.MemoryBytes/8)
	var input Input
	if err := questions.Decode(&input); err != nil {
		return fmt.Errorf("read input: %w", err)
	}
	answers, enough := make(chan childOutput, 1), make(chan struct{})
	defer close(enough)
	go func() { answers <- input.answer() }()
	tooMuch := watchMemory(l.MemoryBytes, enough)
	select {
	case a := <-answers:
		return json.NewEncoder(out).Encode(a)
	case <-tooMuch:
		return json.NewEncoder(out).Encode(childOutput{Refused: input.wrapError(errTooMuchMemory(l.MemoryBytes)).Error()})
	}
}

func (in Input) answer() childOutput {
	objects, err := Render(in)
	if err != nil {
		return childOutput{Refused: err.Error()}
	}
	contents := make([]map[string]any, len(objects))
	for i, o := range objects {
		contents[i] = o.Object
	}
	encoded, err := json.Marshal(contents)
	if err != nil {
		return childOutput{Refused: in.wrapError(err).Error()}
	}
	return childOutput{Objects: encoded}
}

// watchMemory returns a channel that is closed when this process uses more than limit bytes of memory. The caller
// closes stop to end the check.
func watchMemory(limit int64, stop <-chan struct{}) <-chan struct{} {
	tooMuch := make(chan struct{})
	go func() {
		ticker := time.NewTicker(watchInterval)
		defer ticker.Stop()
		use := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
			}
			if metrics.Read(use); int64(use[0].Value.Uint64()-use[1].Value.Uint64()) > limit {
				close(tooMuch)
				return
			}
		}
	}()
	return tooMuch
}
