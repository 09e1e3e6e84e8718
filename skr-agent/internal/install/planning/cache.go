package planning

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
)

// maxPlannedBytes limits the cached plans for all Manifests. 2,000 typical objects need about 100 KiB.
const maxPlannedBytes = 4 << 20

// plannedWindow is the window size of the compression. A module's objects are similar, so a small window is sufficient.
const plannedWindow = 128 << 10

// Cache caches each Manifest's objects from the last comparison, in compressed form. The agent can then correct drift
// without rendering the module again.
type Cache struct {
	mu    sync.Mutex // guards the fields below
	kept  map[types.NamespacedName]packedPlan
	bytes int
}

// packedPlan contains a plan's compressed objects. Each object has two lines: the key and the JSON.
type packedPlan struct {
	// input identifies the plan's inputs (see Input).
	input             string
	data              []byte
	resources, images outcome.Finding
}

// NewCache returns an empty cache.
func NewCache() *Cache { return &Cache{kept: map[types.NamespacedName]packedPlan{}} }

// Keep adds a plan to the cache, unless the cache is full.
func (s *Cache) Keep(name types.NamespacedName, input string, p Plan) {
	data, err := packObjects(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(name)
	if err != nil || s.bytes+len(data) > maxPlannedBytes {
		return
	}
	s.kept[name] = packedPlan{input, data, p.Resources, p.Images}
	s.bytes += len(data)
}

// Forget drops a Manifest's plan.
func (s *Cache) Forget(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(name)
}

func (s *Cache) drop(name types.NamespacedName) {
	s.bytes -= len(s.kept[name].data)
	delete(s.kept, name)
}

// Changed returns a cached plan, reduced to the changed objects and the default CR. It returns false if the cache does
// not contain the plan.
func (s *Cache) Changed(name types.NamespacedName, input string, changed object.Keys) (Plan, bool) {
	s.mu.Lock()
	packed, ok := s.kept[name]
	s.mu.Unlock()
	if !ok || packed.input != input {
		return Plan{}, false
	}
	p, err := unpackObjects(packed.data, changed)
	if err != nil {
		s.Forget(name)
		return Plan{}, false
	}
	p.Resources, p.Images = packed.resources, packed.images
	return p, true
}

// defaultCRLine is the line before the default CR in a packedPlan.
const defaultCRLine = "default CR"

func packObjects(p Plan) ([]byte, error) {
	var packed bytes.Buffer
	encoder, err := zstd.NewWriter(&packed, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(plannedWindow))
	if err != nil {
		return nil, err
	}
	write := func(line string, o *unstructured.Unstructured) error {
		text, err := json.Marshal(o.Object)
		if err == nil {
			_, err = fmt.Fprintf(encoder, "%s\n%s\n", line, text)
		}
		return err
	}
	if p.DefaultCR != nil {
		err = write(defaultCRLine, p.DefaultCR)
	}
	for _, stage := range p.Stages {
		for _, o := range stage {
			if err == nil {
				err = write(line(guard.KeyOf(o)), o)
			}
		}
	}
	if closed := encoder.Close(); err == nil {
		err = closed
	}
	return bytes.Clone(packed.Bytes()), err
}

// line returns an object's key as one line. The quoting escapes line breaks.
func line(k guard.Key) string {
	return fmt.Sprintf("%q", []string{k.Group, k.Kind, k.Namespace, k.Name})
}

func unpackObjects(data []byte, changed object.Keys) (Plan, error) {
	wanted := make(map[string]bool, len(changed))
	for k := range changed {
		wanted[line(k)] = true
	}
	decoder, err := zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(1<<20))
	if err != nil {
		return Plan{}, err
	}
	defer decoder.Close()
	var p Plan
	var line string
	lines := bufio.NewScanner(decoder)
	lines.Buffer(nil, 2*maxPlannedBytes)
	for odd := true; lines.Scan(); odd = !odd {
		if odd {
			line = lines.Text()
			continue
		}
		if line != defaultCRLine && !wanted[line] {
			continue
		}
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(lines.Bytes()); err != nil {
			return Plan{}, err
		}
		if line == defaultCRLine {
			p.DefaultCR = o
			continue
		}
		p.addMove(o)
		stage := stageOf(o)
		p.Stages[stage] = append(p.Stages[stage], o)
		p.Inventory = append(p.Inventory, object.ResourceOf(o))
	}
	return p, lines.Err()
}
