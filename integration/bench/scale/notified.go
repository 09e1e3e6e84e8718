package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// rarePoll is the polling interval that is recommended if notifications are enabled.
const rarePoll = 10 * time.Minute

// notify enables notifications from the registry to the publisher, and from the publisher to the agents.
func (w *world) notify() error {
	var err error
	if w.notifications, err = fleet.NewNotifications(); err != nil {
		return err
	}
	flags, err := w.notifications.PublisherFlags(w.dir)
	if err != nil {
		return err
	}
	w.notifyFlags = append(flags, "--set=report-poll-interval="+rarePoll.String(), "--allowed-silence=1h")
	return nil
}

// subscribe creates every agent's password for notifications from the publisher.
func (w *world) subscribe(ctx context.Context) error {
	registries := make(map[string]*store.Registries, w.Runtimes)
	var mu sync.Mutex // guards registries
	_, err := forEach(ctx, w.agents.each, func(ctx context.Context, a *agent) error {
		output, code := fleet.Run(ctx, w.binaries.Publisher, "registry", "credentials", a.id, "--keys", w.keys(),
			"--location", w.notifications.Agents+"/"+fleetPath)
		if code != 0 {
			return fmt.Errorf("create the registry password of %s: %s", a.id, output)
		}
		known, err := store.NewRegistries(store.Access{DockerConfig: []byte(output), NoRetry: true})
		if err != nil {
			return fmt.Errorf("read the registry password of %s: %w", a.id, err)
		}
		mu.Lock()
		registries[a.id] = known
		mu.Unlock()
		return nil
	})
	if err != nil {
		return err
	}
	url := w.notifications.AgentsURL()
	w.agents.connect = func(ctx context.Context, a *agent) (io.ReadCloser, error) {
		return registries[a.id].Stream(ctx, url)
	}
	return nil
}

// describePolling returns the phrase in the results that describes how agents detect a new bundle.
func (w *world) describePolling() string {
	if w.Notifications {
		return "agents are notified, and poll every " + short(w.AgentPoll)
	}
	return "agents poll every " + short(w.AgentPoll)
}

// listen makes an agent poll after each notification. It reconnects when the connection ends.
func (all *agents) listen(ctx context.Context, a *agent) {
	for ctx.Err() == nil {
		all.readEvents(ctx, a)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second + rand.N(time.Second)):
		}
	}
}

// readEvents reads one connection to the publisher's notifications until it ends.
func (all *agents) readEvents(ctx context.Context, a *agent) {
	answer, err := all.connect(ctx, a)
	if err != nil {
		return
	}
	defer answer.Close()
	a.poll() // notifications may have been lost before the connection was open
	for lines := bufio.NewScanner(answer); lines.Scan(); {
		if bytes.HasPrefix(lines.Bytes(), []byte("data:")) {
			a.poll()
		}
	}
}

// poll makes the agent poll immediately, unless agents are suspended.
func (a *agent) poll() {
	select {
	case a.wake <- struct{}{}:
	default: // a poll is already pending
	}
}
