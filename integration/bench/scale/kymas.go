package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// kymas contains the statuses of all Kymas. It receives them from a watch, because repeated lists would affect the
// measurement.
type kymas struct {
	api    rest.Interface
	cancel context.CancelFunc
	ended  chan struct{}

	mu      sync.Mutex // guards the fields below
	known   map[string]record
	changed time.Time // time of a Kyma's last change
	trouble error
}

// record contains the fields of a Kyma's status that stages wait for.
type record struct {
	// Published is the digest of the newest bundle. Observed is the digest of the bundle that the runtime has
	// reported.
	Published, Observed string
	State               v1beta2.State
	// Version and ModuleState describe the promoted module.
	Version     string
	ModuleState v1beta2.State
}

type document struct {
	Metadata struct{ Name, ResourceVersion string }
	Status   struct {
		State   v1beta2.State
		Modules []struct {
			Name, Version string
			State         v1beta2.State
		}
		Runtime struct{ Published, Observed struct{ Digest string } }
	}
}

func (d document) record() record {
	r := record{
		Published: d.Status.Runtime.Published.Digest, Observed: d.Status.Runtime.Observed.Digest, State: d.Status.State,
	}
	for _, m := range d.Status.Modules {
		if m.Name == promotedModule {
			r.Version, r.ModuleState = m.Version, m.State
		}
	}
	return r
}

func watchKymas(ctx context.Context, api rest.Interface) *kymas {
	ctx, cancel := context.WithCancel(ctx)
	k := &kymas{api: api, cancel: cancel, ended: make(chan struct{}), known: map[string]record{}}
	go k.follow(ctx)
	return k
}

func (k *kymas) close() {
	k.cancel()
	<-k.ended
}

// kymasPath is the path of Kymas on the API server.
var kymasPath = "/apis/" + v1beta2.GroupVersion.String() + "/namespaces/" + sample.Namespace + "/kymas"

func (k *kymas) follow(ctx context.Context) {
	defer close(k.ended)
	for version := ""; ctx.Err() == nil; {
		var err error
		if version == "" {
			version, err = k.list(ctx)
		} else if err = k.watch(ctx, &version); err != nil {
			version = ""
		}
		k.mu.Lock()
		k.trouble = err
		k.mu.Unlock()
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
}

// list reads all Kymas in pages and returns the list's resource version.
func (k *kymas) list(ctx context.Context) (version string, err error) {
	next := ""
	for {
		data, err := k.api.Get().AbsPath(kymasPath).Param("limit", "500").Param("continue", next).Timeout(time.Minute).
			DoRaw(ctx)
		if err != nil {
			return "", fmt.Errorf("list Kymas: %w", err)
		}
		var page struct {
			Metadata struct{ ResourceVersion, Continue string }
			Items    []document
		}
		if err := json.Unmarshal(data, &page); err != nil {
			return "", fmt.Errorf("list Kymas: %w", err)
		}
		for _, d := range page.Items {
			k.set(d)
		}
		if next = page.Metadata.Continue; next == "" {
			return page.Metadata.ResourceVersion, nil
		}
	}
}

// watch processes changes from a resource version until the API server closes the watch.
func (k *kymas) watch(ctx context.Context, version *string) error {
	stream, err := k.api.Get().AbsPath(kymasPath).Param("watch", "true").Param("resourceVersion", *version).
		Param("timeoutSeconds", "7200").Stream(ctx)
	if err != nil {
		return fmt.Errorf("watch Kymas: %w", err)
	}
	defer stream.Close()
	for decoder := json.NewDecoder(stream); ; {
		var event struct {
			Type   string
			Object document
		}
		if err := decoder.Decode(&event); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("watch Kymas: %w", err)
		}
		if event.Type == "ERROR" {
			return errors.New("watch Kymas: the API server closed the watch")
		}
		k.set(event.Object)
		*version = event.Object.Metadata.ResourceVersion
	}
}

func (k *kymas) set(d document) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := d.record(); k.known[d.Metadata.Name] != now {
		k.known[d.Metadata.Name], k.changed = now, time.Now()
	}
}

// count returns how many Kymas the function wanted selects. It also returns a description of one of the other Kymas,
// and the time of the last change to a Kyma.
func (k *kymas) count(wanted func(id string, r record) bool) (n int, other string, changed time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	not := ""
	for id, r := range k.known {
		if wanted(id, r) {
			n++
		} else {
			not = id
		}
	}
	if not != "" {
		other = fmt.Sprintf("%s has %+v", not, k.known[not])
	}
	if k.trouble != nil {
		other += "; " + k.trouble.Error()
	}
	return n, other, k.changed
}
