// Package lender borrows clusters for tests. One process, integration/cluster/lend, starts kube-apiserver and etcd
// for all test binaries and lends clusters in their initial state.
//
// A loan is a connection to the lender's Unix socket. It ends with the connection, so a crashed test binary does not
// keep its cluster.
package lender

import (
	"context"
	"errors"
	"fmt"
	"net/rpc"
	"net/url"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kyma-pull/kyma-pull/hack/pristine"
)

// Env is the environment variable with the path of the lender's socket.
const Env = "KYMA_PULL_CLUSTERS"

// Service is the prefix of the lender's RPC method names, such as Service + ".Take".
const Service = "Lender"

// Want describes the cluster to borrow.
type Want struct {
	// Workloads requests a cluster that makes Deployments, StatefulSets and DaemonSets ready.
	Workloads bool
}

// Place describes a running cluster on this machine: its folder and the address of its etcd.
type Place struct {
	Dir, Kubeconfig, Etcd string
	// Audited is the audit log's size when the loan started. Earlier entries belong to other borrowers.
	Audited int64
}

// User is a user to add to a cluster.
type User struct {
	Name   string
	Groups []string
}

// Loan is a borrowed cluster.
type Loan struct {
	Place
	connection *rpc.Client
}

// Socket returns the path of the lender's socket, or "" if the run has no lender.
func Socket() string { return os.Getenv(Env) }

// Borrow connects to the lender at a socket and waits until the lender has a free cluster.
func Borrow(ctx context.Context, socket string, want Want) (*Loan, error) {
	connection, err := rpc.Dial("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster lender at $%s: %w", Env, err)
	}
	l := &Loan{connection: connection}
	call := connection.Go(Service+".Take", want, &l.Place, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
		err = call.Error
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("borrow a cluster: %w", err), connection.Close())
	}
	return l, nil
}

// Call calls one of the lender's methods for the borrowed cluster.
func (l *Loan) Call(method string, argument, reply any) error {
	return l.connection.Call(Service+"."+method, argument, reply)
}

// Return ends the loan. Programs that use the cluster must have stopped.
func (l *Loan) Return() error {
	var none bool
	return errors.Join(l.Call("Return", true, &none), l.connection.Close())
}

// Disconnect ends the loan without returning the cluster, which the lender then stops.
func (l *Loan) Disconnect() error { return l.connection.Close() }

// ReportStart reports to the lender that this process starts an API server itself. Without a lender, it does nothing.
func ReportStart() error {
	if Socket() == "" {
		return nil
	}
	connection, err := rpc.Dial("unix", Socket())
	if err != nil {
		return fmt.Errorf("connect to the cluster lender at $%s: %w", Env, err)
	}
	var none bool
	return errors.Join(connection.Call(Service+".CountStart", true, &none), connection.Close())
}

// Server is an API server for one package's tests.
type Server struct {
	Config *rest.Config // with admin permissions
	Etcd   *url.URL
	stop   func() error
}

// Start borrows a cluster with the CRDs of both charts. Without a lender, it starts env in this process.
func Start(ctx context.Context, env *envtest.Environment) (*Server, error) {
	if Socket() == "" {
		config, err := pristine.Start(env)
		if err != nil {
			return nil, err
		}
		config.QPS = -1
		return &Server{Config: config, Etcd: env.ControlPlane.Etcd.URL, stop: env.Stop}, nil
	}
	loan, err := Borrow(ctx, Socket(), Want{})
	if err != nil {
		return nil, err
	}
	s := &Server{stop: loan.Return}
	if s.Config, err = loan.Config(); err == nil {
		s.Etcd, err = url.Parse(loan.Etcd)
	}
	if err != nil {
		return nil, errors.Join(err, loan.Return())
	}
	return s, nil
}

// Stop returns the API server to the lender. Without a lender, it stops the API server.
func (s *Server) Stop() error { return s.stop() }

// Config returns a client configuration with admin permissions.
func (p Place) Config() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig of a cluster: %w", err)
	}
	config.QPS, config.Burst = -1, 0
	return config, nil
}
