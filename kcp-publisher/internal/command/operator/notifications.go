package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/internal/serve"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/registryops/notify"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/registryops/receiver"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/registryops/token"
)

type notificationFlags struct {
	receiverAddress, receiverToken string
	address, generations           string
	connections                    int
	certificate, key               string

	tokens *receiver.TokenFile // nil until check has read the token file
}

// maxConnections is the largest value of --notifications-connections. Each connection needs a file descriptor, and
// Linux allows about one million of them per process.
const maxConnections = 1_000_000

func (f *notificationFlags) add(flags, settings *pflag.FlagSet) {
	flags.StringVar(&f.receiverAddress, "receiver-bind-address", "",
		"address of the receiver for registry notifications, POST "+receiver.Path+
			"; default: none, the publisher only polls reports")
	flags.StringVar(&f.receiverToken, "receiver-token", "",
		"file with the token that registries send to the receiver, or two tokens on separate lines during a rotation; "+
			"required with --receiver-bind-address")
	flags.StringVar(&f.address, "notifications-bind-address", "",
		"address for the notification streams of agents, GET "+bundle.NotificationsPath+
			"; default: none, agents only poll")
	settings.IntVar(&f.connections, "notifications-connections", 10_000,
		"maximum number of agents with a notification stream")
	settings.StringVar(&f.generations, "notifications-generations", "",
		"YAML file with the lowest accepted password generation of users, as USER: GENERATION, like --generations "+
			"of token-service")
	settings.StringVar(&f.certificate, "notifications-tls-certificate", "",
		"PEM file with the TLS certificate for both bind addresses; default: plain HTTP, behind a proxy that "+
			"terminates TLS")
	settings.StringVar(&f.key, "notifications-tls-key", "", "PEM file with the TLS certificate's private key")
}

func (f *notificationFlags) check() (err error) {
	switch {
	case (f.receiverAddress == "") != (f.receiverToken == ""):
		err = errors.New("--receiver-bind-address and --receiver-token: set both or neither")
	case (f.certificate == "") != (f.key == ""):
		err = errors.New("notifications-tls-certificate and notifications-tls-key: set both or neither")
	case f.certificate != "" && f.receiverAddress == "" && f.address == "":
		err = errors.New(
			"notifications-tls-certificate requires --receiver-bind-address or --notifications-bind-address")
	case f.connections < 1 || f.connections > maxConnections:
		err = fmt.Errorf("notifications-connections %d: must be 1 to %d", f.connections, maxConnections)
	case f.receiverAddress != "":
		if f.tokens, err = receiver.OpenTokenFile(f.receiverToken); err != nil {
			err = fmt.Errorf("--receiver-token: %w", err)
		}
	}
	if err != nil {
		return cli.Usage(err)
	}
	return nil
}

// served connects the receiver for registry notifications to the part of the process that publishes to runtimes.
type served interface {
	// acceptsNotifications reports whether the process accepts notifications.
	acceptsNotifications() bool
	// owns reports whether the process publishes to the runtime.
	owns(runtime string) bool
	// hasRuntime reports whether one of the process's Kymas has this runtime ID.
	hasRuntime(runtime string) bool
}

func (f *notificationFlags) secure(mgr ctrl.Manager) (*tls.Config, error) {
	if f.certificate == "" {
		return nil, nil
	}
	watcher, err := certwatcher.New(f.certificate, f.key)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("notifications-tls-certificate and notifications-tls-key: %w", err))
	}
	return &tls.Config{GetCertificate: watcher.GetCertificate, MinVersion: tls.VersionTLS12}, mgr.Add(watcher)
}

// setUpReads returns a queue that reads runtimes' reports without waiting for the next poll, and adds the queue to the
// manager. It returns nil if no receiver is configured.
func (f *notificationFlags) setUpReads(
	mgr ctrl.Manager, readReport func(ctx context.Context, runtime string) error,
) (*receiver.ReadQueue, error) {
	if f.receiverAddress == "" {
		return nil, nil
	}
	reads := receiver.NewReads(readReport, time.Now)
	return reads, mgr.Add(reads)
}

// setUpReceiver adds the receiver for registry notifications to the manager if the receiver is enabled. The receiver
// calls forward for a notification about another process's runtime. forward is nil if only one process exists.
func (f *notificationFlags) setUpReceiver(
	mgr ctrl.Manager, runtimes served, reads *receiver.ReadQueue, forward func(runtime string), location string,
	secure *tls.Config,
) error {
	if f.receiverAddress == "" {
		return nil
	}
	_, prefix, err := token.SplitLocation(location)
	if err != nil {
		return cli.Usage(fmt.Errorf("--location %q: %w", location, err))
	}
	handler := receiver.New(receiver.Options{
		Prefix: prefix, Tokens: f.tokens, Leading: runtimes.acceptsNotifications, Log: ctrl.Log.WithName("receiver"),
		Request: func(runtime string) bool {
			switch {
			case !runtimes.owns(runtime):
				if forward != nil {
					forward(runtime)
				}
				return forward != nil
			case !runtimes.hasRuntime(runtime):
				return false
			}
			reads.Add(runtime)
			return true
		},
	})
	mux := http.NewServeMux()
	mux.Handle(receiver.Path, handler)
	if err := serve.Add(mgr, "receiver", f.receiverAddress, secure, mux, receiver.Limits); err != nil {
		return cli.Usage(fmt.Errorf("--receiver-bind-address: %w", err))
	}
	return nil
}

// setUpSubscribers adds the endpoint for agents to the manager. The function owns reports whether this process
// publishes to a runtime. setUpSubscribers returns nil if no endpoint is configured.
func (f *notificationFlags) setUpSubscribers(
	mgr ctrl.Manager, owns func(runtime string) bool, folder keys.Folder, secure *tls.Config,
) (*notify.Subscribers, error) {
	if f.address == "" {
		return nil, nil
	}
	generations, err := token.OpenGenerations(f.generations)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("notifications-generations: %w", err))
	}
	secrets, err := keys.OpenTokenFile(folder)
	if err != nil {
		return nil, err
	}
	subscribers, handler := notify.New(notify.Options{
		Connections: f.connections, Passwords: token.Passwords{Secrets: secrets.Secrets, InForce: generations.InForce},
		Serves: owns, Log: ctrl.Log.WithName("notifications"),
	})
	if err := mgr.Add(subscribers); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle(bundle.NotificationsPath, handler)
	if err := serve.Add(mgr, "notifications", f.address, secure, mux, notify.Limits); err != nil {
		return nil, cli.Usage(fmt.Errorf("--notifications-bind-address: %w", err))
	}
	return subscribers, nil
}

// unsharded is a publisher without shards: its only active replica publishes to all runtimes.
type unsharded struct {
	mgr   ctrl.Manager
	kymas *controller.Kymas
}

func (w unsharded) acceptsNotifications() bool { return isElected(w.mgr) }

func isElected(mgr ctrl.Manager) bool {
	select {
	case <-mgr.Elected():
		return true
	default:
		return false
	}
}

func (w unsharded) owns(string) bool { return w.acceptsNotifications() }

func (w unsharded) hasRuntime(runtime string) bool {
	return w.kymas.HasKyma(context.Background(), runtime)
}
