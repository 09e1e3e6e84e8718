package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

const (
	// atOnce is the maximum number of agents that work at the same time. In production, each agent has its own machine.
	atOnce = 64
	jitter = 0.1
)

// newAgents creates all agents with their keys and tokens.
func (w *world) newAgents(ctx context.Context) (*agents, error) {
	all := &agents{
		place: w.place, poll: w.AgentPoll, report: w.AgentReport, slots: make(chan struct{}, atOnce),
		each: make([]*agent, w.Runtimes), known: map[digest.Digest]*sharedReports{},
	}
	all.suspended.Store(true)
	root, err := os.ReadFile(filepath.Join(w.keys(), "root.json"))
	if err != nil {
		return nil, err
	}
	if all.root, err = trust.ParseRoot(root); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(w.keys(), "token.key"))
	if err != nil {
		return nil, err
	}
	secret, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("token.key: %w", err)
	}
	for i := range all.each {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if all.each[i], err = newAgent(all, runtimeID(i), secret); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// startAll starts all agents at once.
func (all *agents) startAll(ctx context.Context) {
	ctx, all.stop = context.WithCancel(ctx)
	all.suspended.Store(false)
	for _, a := range all.each {
		all.running.Go(func() { all.live(ctx, a) })
		if all.connect != nil {
			all.running.Go(func() { all.listen(ctx, a) })
		}
	}
}

func (all *agents) live(ctx context.Context, a *agent) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		woken := false
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-a.wake:
			woken = true
		}
		if !all.suspended.Load() || a.keepsPolling() {
			select {
			case <-ctx.Done():
				return
			case all.slots <- struct{}{}:
			}
			a.round(ctx)
			<-all.slots
		}
		next := all.untilPoll(a)
		if woken && !a.keepsPolling() {
			// A random first interval spreads the agents' polls over time.
			next = time.Duration(rand.Float64() * float64(next))
		}
		timer.Reset(next)
	}
}

func (all *agents) close() {
	if all.stop != nil {
		all.stop()
	}
	all.running.Wait()
}

// suspend makes all agents stop sending requests. resume lets them continue. If now is true, resume also makes all
// agents poll immediately.
func (all *agents) suspend() { all.suspended.Store(true) }

func (all *agents) resume(now bool) {
	all.suspended.Store(false)
	if !now {
		return
	}
	for _, a := range all.each {
		a.poll()
	}
}

// spread distributes the agents' next reports evenly over the report interval, as in an idle fleet.
func (all *agents) spread() {
	for _, a := range all.each {
		a.mu.Lock()
		a.nextReport = time.Now().Add(time.Duration(rand.Float64() * float64(all.report)))
		a.mu.Unlock()
	}
}

// setBehavior sets the behavior of every agent. The function how returns the behavior of the agent with index i.
func (all *agents) setBehavior(how func(i int) conduct) {
	for i, a := range all.each {
		a.mu.Lock()
		a.conduct = how(i)
		a.mu.Unlock()
	}
}

func (all *agents) untilPoll(a *agent) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conduct.Noisy {
		return time.Second
	}
	return jittered(all.poll)
}

// arrivalTimes returns the times when agents received a version of the promoted module. The string other describes an
// agent that has not received the version.
func (all *agents) arrivalTimes(version string) (arrived []time.Time, other string) {
	var not *agent
	var trouble error
	for _, a := range all.each {
		a.mu.Lock()
		if a.state != nil && a.state.version == version {
			arrived = append(arrived, a.arrived)
		} else {
			not, trouble = a, a.trouble
		}
		a.mu.Unlock()
	}
	if not != nil {
		other = fmt.Sprintf("agent %s has no bundle with %s %s (%v)", not.id, promotedModule, version, trouble)
	}
	return arrived, other
}
