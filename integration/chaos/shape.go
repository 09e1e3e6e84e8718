package chaos

import (
	"errors"
	"fmt"
	"slices"
)

// Shape describes the fleet of a plan.
type Shape struct {
	// Real runtimes have API servers and agents. Simulated runtimes only implement the wire format.
	Real, Simulated int
	Replicas        int
	// Network adds faults of single network connections.
	Network bool
	// Clocks adds faults that shift the clock of one program. It requires the programs from ShiftablePrograms.
	Clocks bool
	// Disasters adds missing APIs, quotas, and restores and copies of API servers.
	Disasters bool
	// Mixed is the commit of an earlier release. Every second real runtime runs the agent of this release. If Mixed is
	// empty, all runtimes run the current agent.
	Mixed string
	// Shards divides the fleet among all publishers.
	Shards bool
	// Expiry makes bundles expire after bundleValidity, and adds longer outages of all publishers.
	Expiry bool
	// Authorities makes the registry use TLS, and adds changes of its CA.
	Authorities bool
	// Notifications makes the registry notify the first publisher, and this publisher notify agents.
	Notifications bool
}

// RealID returns the name of an initial real runtime.
func RealID(i int) string { return fmt.Sprintf("real-%d", i) }

// isMixed reports whether a real runtime runs the agent of the earlier release in Shape.Mixed.
func (s Shape) isMixed(id string) bool {
	for i := 1; i < s.Real && s.Mixed != ""; i += 2 {
		if id == RealID(i) {
			return true
		}
	}
	return false
}

// Check returns an error if the options cannot be combined.
func (s Shape) Check() error {
	switch {
	case s.Expiry && s.Clocks:
		return errors.New("--expiry cannot be combined with --clocks: if a clock is off by hours, all bundles expire")
	case s.Mixed != "" && s.Clocks:
		return errors.New("--mixed cannot be combined with --clocks: the clock of an earlier agent version cannot be set")
	case s.Authorities && s.Clocks:
		return errors.New("--ca cannot be combined with --clocks: if a clock is off by days, certificates are invalid")
	case s.Authorities && s.Mixed != "":
		return errors.New("--ca cannot be combined with --mixed: earlier agent versions ignore the announced CA")
	}
	return nil
}

// All returns the names of the initial runtimes.
func (s Shape) All() []string {
	var all []string
	for i := range s.Real {
		all = append(all, RealID(i))
	}
	for i := range s.Simulated {
		all = append(all, SimulatedID(i))
	}
	return all
}

// canaries returns the names of the runtimes in the first wave.
func (s Shape) canaries() []string {
	return slices.DeleteFunc(s.All(), func(id string) bool { return !Canary(id) })
}

// replicas returns the targets for steps that affect a single publisher.
func (s Shape) replicas() []string {
	var all []string
	for i := range s.Replicas {
		all = append(all, fmt.Sprint(i))
	}
	return all
}

// programs returns the names of the publishers and agents. Steps use these names as targets.
func (s Shape) programs() []string {
	var all []string
	for i := range s.Replicas {
		all = append(all, publisherPrefix+fmt.Sprint(i))
	}
	for i := range s.Real {
		all = append(all, RealID(i))
	}
	return all
}

// publishersToRegistry is the connection of all publishers to the registry. The publishers share a proxy, because
// signed bundles contain the registry's address.
const publishersToRegistry = "the publishers to the registry"

func publisherToAPI(replica int) string {
	return fmt.Sprintf("publisher %d to its API server", replica)
}

func agentToAPI(id string) string { return id + " to its API server" }

func agentToRegistry(id string) string { return id + " to the registry" }

// connectionNames returns the names of the network connections that a fault can disturb.
func (s Shape) connectionNames() []string {
	connections := []string{publishersToRegistry}
	for i := range s.Replicas {
		connections = append(connections, publisherToAPI(i))
	}
	for i := range s.Real {
		connections = append(connections, agentToAPI(RealID(i)), agentToRegistry(RealID(i)))
	}
	return connections
}

// SimulatedID returns the name of an initial simulated runtime.
func SimulatedID(i int) string { return fmt.Sprintf("sim-%d", i) }

// Canary reports whether a runtime belongs to the first wave: the first real and the first two simulated runtimes.
func Canary(id string) bool { return id == RealID(0) || id == SimulatedID(0) || id == SimulatedID(1) }
