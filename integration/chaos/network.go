package chaos

import (
	"context"
	"net/url"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// startProxy starts a proxy that forwards connections to an address, and returns the proxy's address. The argument
// connection is the proxy's name in the steps of the plan.
func (s *stage) startProxy(connection, to string) (host string, err error) {
	p, err := fleet.StartProxy(to)
	if err != nil {
		return "", err
	}
	s.connections[connection], s.proxies = p, append(s.proxies, p)
	return p.Host(), nil
}

// throughProxy writes a kubeconfig for the same API server, but through a proxy.
func (s *stage) throughProxy(connection, kubeconfig string) (flag string, err error) {
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return "", err
	}
	for _, c := range config.Clusters {
		server, err := url.Parse(c.Server)
		if err != nil {
			return "", err
		}
		if server.Host, err = s.startProxy(connection, server.Host); err != nil {
			return "", err
		}
		c.Server = server.String()
	}
	path := filepath.Join(s.dir, strings.ReplaceAll(connection, " ", "-")+".kubeconfig")
	return "--kubeconfig=" + path, clientcmd.WriteToFile(*config, path)
}

// startNetworkFault disturbs a network connection until end is called.
func (s *stage) startNetworkFault(ctx context.Context, step Step) (end func() error, err error) {
	p := s.connections[step.Target]
	switch step.Kind {
	case HangWay:
		err = p.Cut(ctx)
	case ResetWay:
		p.Reset()
	case SlowWay:
		p.Slow()
	case ForgetWay:
		p.Forget()
		return nil, nil
	}
	return func() error { return p.Heal(context.WithoutCancel(ctx)) }, err
}

// balanceNotifications distributes the connections of the registry and of the agents among the publishers.
func (s *stage) balanceNotifications() error {
	var receivers, agents []string
	for _, own := range s.receivers {
		receivers, agents = append(receivers, own.Receiver), append(agents, own.Agents)
	}
	for address, targets := range map[string][]string{
		s.notifications.Receiver: receivers, s.notifications.Agents: agents,
	} {
		p, err := fleet.StartBalancer(address, targets...)
		if err != nil {
			return err
		}
		s.proxies = append(s.proxies, p)
	}
	return nil
}
