// Package account reads and writes module objects with each module account's permissions.
//
// Its methods send requests and return the results. The only decision of the methods is the API version: they read,
// list and delete an object in any version that works. The functions for errors distinguish a mistake in the module, a
// missing permission and a temporary API server problem.
package account

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
)

// Account reads and writes a module's objects with the module account's permissions. All requests for a module must use
// it. A request with the agent's own permissions would let the module use the agent's permissions (CVE-2026-41050).
type Account struct {
	User      string // the impersonated user; empty for the agent itself
	Client    client.Client
	manager   string // field manager in apply requests
	discovery discovery.DiscoveryInterface
	pods      rest.Interface // for container logs
	last      lastKinds
}

// newUser returns a user's account, or the agent's own account if user is empty.
func newUser(mgr ctrl.Manager, user, fieldManager string) (*Account, error) {
	config, http := mgr.GetConfig(), mgr.GetHTTPClient()
	if user != "" {
		var err error
		config = rest.CopyConfig(config)
		// Set only the user name, because the API server adds a ServiceAccount's groups.
		config.Impersonate = rest.ImpersonationConfig{UserName: user}
		if http, err = rest.HTTPClientFor(config); err != nil {
			return nil, err
		}
	}
	cluster, err := client.New(config, client.Options{
		HTTPClient: http, Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), FieldOwner: fieldManager,
	})
	if err != nil {
		return nil, err
	}
	served, err := discovery.NewDiscoveryClientForConfigAndClient(config, http)
	if err != nil {
		return nil, err
	}
	pods, err := newPodClient(config, http)
	if err != nil {
		return nil, err
	}
	return &Account{User: user, Client: cluster, manager: fieldManager, discovery: served, pods: pods}, nil
}

// Get returns the live object in any served version, or nil if it does not exist.
func (a *Account) Get(ctx context.Context, r v1beta2.Resource) (*unstructured.Unstructured, error) {
	var o *unstructured.Unstructured
	err := a.inAnyVersion(r, func(r v1beta2.Resource) error {
		o = object.Reference(r)
		return a.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
	})
	if isAbsent(err) || errors.Is(err, ErrAbsentKind) {
		return nil, nil
	}
	return o, err
}

// Metadata returns the live object's metadata in any served version, or nil if it does not exist.
func (a *Account) Metadata(ctx context.Context, r v1beta2.Resource) (*metav1.PartialObjectMetadata, error) {
	o, err := a.ServedMetadata(ctx, r)
	if errors.Is(err, ErrAbsentKind) {
		return nil, nil
	}
	return o, err
}

// ServedMetadata is like Metadata, but returns ErrAbsentKind if the kind does not exist. The result has the API version
// in which it was read.
func (a *Account) ServedMetadata(ctx context.Context, r v1beta2.Resource) (*metav1.PartialObjectMetadata, error) {
	var o *metav1.PartialObjectMetadata
	err := a.inAnyVersion(r, func(r v1beta2.Resource) error {
		o = &metav1.PartialObjectMetadata{}
		o.SetGroupVersionKind(object.GVKOf(r))
		err := a.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Name}, o)
		o.SetGroupVersionKind(object.GVKOf(r))
		return err
	})
	if isAbsent(err) {
		return nil, nil
	}
	return o, err
}

// Set contains all modules' accounts.
type Set struct {
	rules  guard.Accounts
	byUser map[string]*Account
}

// NewSet returns the accounts that rules can select.
func NewSet(mgr ctrl.Manager, rules guard.Accounts, fieldManager string) (Set, error) {
	byUser := map[string]*Account{}
	for _, user := range rules.AllUsers() {
		a, err := newUser(mgr, user, fieldManager)
		if err != nil {
			return Set{}, err
		}
		byUser[user] = a
	}
	return Set{rules, byUser}, nil
}

// Of returns a module's account.
func (s Set) Of(m *v1beta2.Manifest) *Account {
	return s.byUser[s.rules.UserFor(m.Module(), m.ModuleLabel())]
}

// Own returns the agent's own account.
func (s Set) Own() *Account { return s.byUser[""] }
