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
	// maxStackBytes ends endless recursion while there is enough memory for an error message.
	maxStackBytes = 64 << 20
	// hardShare is the ratio of the kernel's memory limit to the child's own limit. The child reports an exceeded limit
	// itself, because Go's runtime can die in many ways without memory.
	hardShare = 4
	// watchInterval is the interval at which the child checks its memory. A program can allocate 50 MiB in between.
	watchInterval = 10 * time.Millisecond
)

// Child is the child's side of Confined. It reads limits and an Input as JSON and writes the objects or an error.
// Before it reads the Input, it gives up everything that rendering does not need: memory beyond the limit, most
// processor time, and the ability to open a file, a connection or a program. Its process must not do anything else.
func Child(in io.Reader, out io.Writer) error {
	// Helm and kustomize log warnings, and the clock's zone would depend on the node.
	log.SetOutput(io.Discard)
	time.Local = time.UTC
	questions := json.NewDecoder(bufio.NewReader(in))
	var l limits
	if err := questions.Decode(&l); err != nil {
		return fmt.Errorf("read limits: %w", err)
	}
	if l.MemoryBytes <= 0 || l.CPUSeconds == 0 {
		return errors.New("read limits: not found: only the agent itself runs this command")
	}
	if err := giveUp(l); err != nil {
		return fmt.Errorf("set limits: %w", err)
	}
	debug.SetMaxStack(maxStackBytes)
	debug.SetMemoryLimit(l.MemoryBytes - l.MemoryBytes/8)
	var input Input
	if err := questions.Decode(&input); err != nil {
		return fmt.Errorf("read input: %w", err)
	}
	answers, enough := make(chan answer, 1), make(chan struct{})
	defer close(enough)
	go func() { answers <- input.answer() }()
	tooMuch := outgrown(l.MemoryBytes, enough)
	select {
	case a := <-answers:
		return json.NewEncoder(out).Encode(a)
	case <-tooMuch:
		return json.NewEncoder(out).Encode(answer{Refused: input.named(errTooMuchMemory(l.MemoryBytes)).Error()})
	}
}

func (in Input) answer() answer {
	objects, err := Render(in)
	if err != nil {
		return answer{Refused: err.Error()}
	}
	contents := make([]map[string]any, len(objects))
	for i, o := range objects {
		contents[i] = o.Object
	}
	encoded, err := json.Marshal(contents)
	if err != nil {
		return answer{Refused: in.named(err).Error()}
	}
	return answer{Objects: encoded}
}

// outgrown is closed when this process exceeds its memory limit.
func outgrown(most int64, enough <-chan struct{}) <-chan struct{} {
	tooMuch := make(chan struct{})
	go func() {
		ticker := time.NewTicker(watchInterval)
		defer ticker.Stop()
		use := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
		for {
			select {
			case <-enough:
				return
			case <-ticker.C:
			}
			if metrics.Read(use); int64(use[0].Value.Uint64()-use[1].Value.Uint64()) > most {
				close(tooMuch)
				return
			}
		}
	}()
	return tooMuch
}

func errTooMuchMemory(most int64) error {
	return fmt.Errorf("needs more than %d MiB of memory", most>>20)
}
