package bundle

import (
	"fmt"
	"slices"
	"time"
)

// Detail is a part of a runtime's report that an operator requests in the runtime's settings.
type Detail string

const (
	// DetailEvents adds conditions and recent Events for objects that keep a module from being ready.
	DetailEvents Detail = "events"
	// DetailLogs adds the last log lines of failing containers to the objects that keep a module from being ready.
	DetailLogs Detail = "logs"
	// DetailObjects adds each module's objects with their states.
	DetailObjects Detail = "objects"
)

// AllDetails returns all details, sorted.
func AllDetails() []Detail { return []Detail{DetailEvents, DetailLogs, DetailObjects} }

// ModuleDetails are the requested details for one module. The agent masks the secrets that it recognizes. The publisher
// does not copy the details to a Kyma's status.
type ModuleDetails struct {
	// Taken is the time when the agent read the details.
	Taken time.Time `json:"taken"`
	// Failing are the objects that keep the module from being ready, with their Pods.
	Failing []FailingObject `json:"failing,omitempty"`
	// Objects are the module's objects.
	Objects []DetailedObject `json:"objects,omitempty"`
	// LeftOut is the number of objects that the agent omitted because a limit was reached.
	LeftOut   int  `json:"leftOut,omitempty"`
	Shortened bool `json:"shortened,omitempty"`
	// Problem is the reason why the agent could not read some details, such as a missing permission.
	Problem string `json:"problem,omitempty"`
}

// DetailedObject is one module object.
type DetailedObject struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// State is Ready, Processing, Warning or Error, or Missing for an object that does not exist.
	State   string `json:"state,omitempty"`
	Message string `json:"message,omitempty"`
}

// FailingObject is an object that is not ready.
type FailingObject struct {
	DetailedObject
	// Conditions are the object's unhealthy conditions, in the format TYPE=STATUS REASON: MESSAGE.
	Conditions []string `json:"conditions,omitempty"`
	Events     []string `json:"events,omitempty"`
	// Logs are the last log lines of the object's failing containers.
	Logs []ContainerLog `json:"logs,omitempty"`
}

// ContainerLog is the end of a container's log.
type ContainerLog struct {
	Container string `json:"container"`
	// Previous is true if the lines were written before the container's last restart.
	Previous bool   `json:"previous,omitempty"`
	Text     string `json:"text"`
}

// Limits for details.
const (
	// MaxDetailedModules limits the number of modules whose failing objects a report lists.
	MaxDetailedModules = 8
	// MaxFailingObjects limits a module's failing objects. MaxDetailedObjects limits all of a module's objects.
	MaxFailingObjects  = 6
	MaxDetailedObjects = 200
	// MaxDetailLines limits the conditions of one object, and also its Events. MaxDetailLogs limits the containers
	// whose logs are reported for one object.
	MaxDetailLines = 6
	MaxDetailLogs  = 3
	// MaxDetailTextBytes limits one reported condition, Event or log line. MaxLogBytes limits all log lines of one
	// container.
	MaxDetailTextBytes = 256
	MaxLogBytes        = 2 << 10
)

func (s Settings) checkDetails() error {
	for i, d := range s.Details {
		if !slices.Contains(AllDetails(), d) || i > 0 && s.Details[i-1] >= d {
			return fmt.Errorf("settings: details %q: must be a sorted list of %v without duplicates", s.Details,
				AllDetails())
		}
	}
	return nil
}

func (d *ModuleDetails) check() error {
	if d == nil {
		return nil
	}
	if n := len(d.Failing); n > MaxFailingObjects {
		return fmt.Errorf("failing: %d objects, must be at most %d", n, MaxFailingObjects)
	}
	if n := len(d.Objects); n > MaxDetailedObjects {
		return fmt.Errorf("objects: %d objects, must be at most %d", n, MaxDetailedObjects)
	}
	if d.LeftOut < 0 {
		return fmt.Errorf("leftOut: %d, must not be negative", d.LeftOut)
	}
	if len(d.Problem) > MaxMessageBytes {
		return fmt.Errorf("problem: %d bytes, must be at most %d", len(d.Problem), MaxMessageBytes)
	}
	for i, o := range d.Objects {
		if err := o.check(); err != nil {
			return fmt.Errorf("objects[%d]%w", i, err)
		}
	}
	for i, f := range d.Failing {
		if err := f.check(); err != nil {
			return fmt.Errorf("failing[%d]%w", i, err)
		}
	}
	return nil
}

func (o DetailedObject) check() error {
	if longest := max(len(o.Group), len(o.Kind), len(o.Namespace), len(o.Name),
		len(o.State)); longest > MaxModuleNameBytes {
		return fmt.Errorf(": one of the fields group, kind, namespace, name and state is %d bytes, must be at most %d",
			longest, MaxModuleNameBytes)
	}
	if len(o.Message) > MaxDetailTextBytes {
		return fmt.Errorf(".message: %d bytes, must be at most %d", len(o.Message), MaxDetailTextBytes)
	}
	return nil
}

func (f FailingObject) check() error {
	if err := f.DetailedObject.check(); err != nil {
		return err
	}
	if len(f.Conditions) > MaxDetailLines || len(f.Events) > MaxDetailLines || len(f.Logs) > MaxDetailLogs {
		return fmt.Errorf(": %d conditions, %d events and %d logs, must be at most %d, %d and %d",
			len(f.Conditions), len(f.Events), len(f.Logs), MaxDetailLines, MaxDetailLines, MaxDetailLogs)
	}
	for _, line := range slices.Concat(f.Conditions, f.Events) {
		if len(line) > MaxDetailTextBytes {
			return fmt.Errorf(": an entry of conditions or events is %d bytes, must be at most %d", len(line),
				MaxDetailTextBytes)
		}
	}
	for i, l := range f.Logs {
		if len(l.Container) > MaxModuleNameBytes || len(l.Text) > MaxLogBytes {
			return fmt.Errorf(".logs[%d]: %d bytes, must be at most %d", i, len(l.Text), MaxLogBytes)
		}
	}
	return nil
}
