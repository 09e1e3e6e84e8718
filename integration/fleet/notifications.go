package fleet

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"

	"github.com/kyma-pull/kyma-pull/integration/loopback"
	"github.com/kyma-pull/kyma-pull/integration/registry"
)

// NewNotifications reserves free addresses.
func NewNotifications() (*Notifications, error) {
	n := &Notifications{Token: rand.Text()}
	for _, address := range []*string{&n.Receiver, &n.Agents} {
		var err error
		if *address, err = loopback.Address(); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// ReceiverURL returns the publisher's URL for notifications from the registry.
func (n *Notifications) ReceiverURL() string { return "http://" + n.Receiver + "/hook" }

// AgentsURL returns the publisher's URL for agents that wait for notifications.
func (n *Notifications) AgentsURL() string { return "http://" + n.Agents + "/notifications" }

// registryOptions returns the options of a registry that sends notifications. n can be nil.
func (n *Notifications) registryOptions() registry.Options {
	if n == nil {
		return registry.Options{}
	}
	return registry.Options{NotifyURL: n.ReceiverURL(), NotifyToken: n.Token}
}

// PublisherFlags returns the publisher's flags for notifications. It writes a token file to dir.
func (n *Notifications) PublisherFlags(dir string) ([]string, error) {
	path := filepath.Join(dir, "receiver-token")
	err := os.WriteFile(path, []byte(n.Token+"\n"), 0o600)
	return []string{"--receiver-bind-address=" + n.Receiver, "--receiver-token=" + path,
		"--notifications-bind-address=" + n.Agents}, err
}

// RestartPublisher kills the publisher and starts it with other flags.
func (f *Fleet) RestartPublisher(flags ...string) error {
	err := f.publisher.Kill()
	f.options.PublisherFlags, f.options.Notifications = flags, nil
	return errors.Join(err, f.StartPublisher())
}

// Notifications returns Options.Notifications, or nil if notifications are disabled.
func (f *Fleet) Notifications() *Notifications { return f.options.Notifications }
