package fleet

import (
	"crypto/rand"
	"errors"
	"net"
	"os"
	"path/filepath"

	"github.com/kyma-pull/kyma-pull/integration/registry"
)

// Notifications are the addresses at which a registry notifies the publisher, and the publisher its agents.
type Notifications struct {
	// Receiver and Agents are HOST:PORT.
	Receiver, Agents string
	// Token is what the registry sends.
	Token string
}

// NewNotifications takes addresses that are free now.
func NewNotifications() (*Notifications, error) {
	n := &Notifications{Token: rand.Text()}
	for _, address := range []*string{&n.Receiver, &n.Agents} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		*address = listener.Addr().String()
		if err := listener.Close(); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// ReceiverURL is where the publisher takes the registry's.
func (n *Notifications) ReceiverURL() string { return "http://" + n.Receiver + "/hook" }

// AgentsURL is where it sends those for agents.
func (n *Notifications) AgentsURL() string { return "http://" + n.Agents + "/notifications" }

// registryOptions are those of a registry that sends them, nothing without.
func (n *Notifications) registryOptions() registry.Options {
	if n == nil {
		return registry.Options{}
	}
	return registry.Options{NotifyURL: n.ReceiverURL(), NotifyToken: n.Token}
}

// PublisherFlags are those of a publisher that takes and sends them; dir is where their token is kept.
func (n *Notifications) PublisherFlags(dir string) ([]string, error) {
	path := filepath.Join(dir, "receiver-token")
	err := os.WriteFile(path, []byte(n.Token+"\n"), 0o600)
	return []string{"--receiver-bind-address=" + n.Receiver, "--receiver-token=" + path, "--notifications-bind-address=" + n.Agents}, err
}

// RestartPublisher kills the publisher and starts it with other flags than those of the fleet's options.
func (f *Fleet) RestartPublisher(flags ...string) error {
	err := f.publisher.Kill()
	f.options.PublisherFlags, f.options.Notifications = flags, nil
	return errors.Join(err, f.StartPublisher())
}
