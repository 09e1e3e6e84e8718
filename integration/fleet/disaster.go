package fleet

import (
	"context"
	"errors"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/cluster"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

var errNoBackup = errors.New("only clusters on this machine can be backed up")

// Backup copies the data of the runtime's API server to a new folder.
func (r *Runtime) Backup(dir string) error {
	c, ok := r.cluster.(*cluster.Cluster)
	if !ok {
		return errNoBackup
	}
	return c.Backup(dir)
}

// Restore restores the data of the runtime's API server from a backup.
func (r *Runtime) Restore(dir string) error {
	c, ok := r.cluster.(*cluster.Cluster)
	if !ok {
		return errNoBackup
	}
	return c.Restore(dir)
}

// Copy starts another cluster with the data of a backup, and an agent in it. The agent has the identity of the original
// agent. Callers must call Discard on the copy.
func (r *Runtime) Copy(ctx context.Context, dir, name string) (*Runtime, error) {
	c := &Runtime{ID: r.ID, AgentFlags: r.fleet.options.AgentFlags, name: name, fleet: r.fleet}
	var err error
	if c.cluster, err = r.fleet.environment.Cluster(ctx, r.fleet, name, false); err != nil {
		return nil, err
	}
	start := func() error {
		if err := errors.Join(c.Restore(dir), c.connect(c.cluster)); err != nil {
			return err
		}
		if err := r.fleet.createAccount(ctx, c.cluster, c.API, c.AgentKubeconfig(), agentAccount,
			r.fleet.options.AgentRights); err != nil {
			return err
		}
		return c.StartAgent()
	}
	if err := start(); err != nil {
		return nil, errors.Join(err, c.Discard())
	}
	return c, nil
}

// Discard stops the agent and the cluster of a copy.
func (r *Runtime) Discard() error { return r.close() }

// DeleteKey deletes the agent's key. The agent creates a new key at its next start.
func (r *Runtime) DeleteKey(ctx context.Context) error {
	return client.IgnoreNotFound(r.API.Delete(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: "skr-agent-key"},
	}))
}

// Requests returns every request that the agent sent to its API server.
func (r *Runtime) Requests() ([]cluster.Request, error) {
	c, ok := r.cluster.(*cluster.Cluster)
	if !ok {
		return nil, errors.New("requests are recorded only for clusters on this machine")
	}
	return c.AllRequests()
}

// BackUpControlPlane copies the control plane's data to a new folder.
func (f *Fleet) BackUpControlPlane(dir string) error {
	c, here := f.kcp.(*cluster.Cluster)
	if !here {
		return errNoBackup
	}
	return c.Backup(dir)
}

// RestoreControlPlane restores the control plane from a backup.
func (f *Fleet) RestoreControlPlane(dir string) error {
	c, here := f.kcp.(*cluster.Cluster)
	if !here {
		return errNoBackup
	}
	return c.Restore(dir)
}

// ReplaceControlPlane replaces a lost control plane with an empty cluster. Callers must stop the publisher first.
func (f *Fleet) ReplaceControlPlane(ctx context.Context) error {
	lost := f.kcp
	f.kcp = nil
	if err := lost.Stop(); err != nil {
		return err
	}
	return f.addControlPlane(ctx)
}

// addControlPlane starts the control plane's cluster and applies the objects of the publisher's chart, except the
// Deployment.
func (f *Fleet) addControlPlane(ctx context.Context) error {
	var err error
	if f.kcp, err = f.environment.Cluster(ctx, f, ControlPlane, true); err != nil {
		return err
	}
	if f.Control, err = Connect(f.kcp.Kubeconfig(), ""); err != nil {
		return err
	}
	if err := copyFile(f.kcp.Kubeconfig(), filepath.Join(f.Dir, "kcp.kubeconfig")); err != nil {
		return err
	}
	if err := f.Control.Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: sample.Namespace}}); err != nil {
		return err
	}
	return f.createAccount(ctx, f.kcp, f.Control, f.PublisherKubeconfig(), publisherAccount, f.options.PublisherRights)
}

// Recreate replaces the runtime's cluster with an empty cluster without an agent or enrollment.
func (r *Runtime) Recreate(ctx context.Context) error {
	lost := r.cluster
	r.cluster = nil
	if err := errors.Join(r.agent.Kill(), lost.Stop()); err != nil {
		return err
	}
	var err error
	if r.cluster, err = r.fleet.environment.Cluster(ctx, r.fleet, r.ID, false); err != nil {
		return err
	}
	if err := r.connect(r.cluster); err != nil {
		return err
	}
	return r.fleet.createAccount(ctx, r.cluster, r.API, r.AgentKubeconfig(), agentAccount, r.fleet.options.AgentRights)
}

// connect sets the runtime's admin client and copies the cluster's admin kubeconfig to the fleet's folder.
func (r *Runtime) connect(own Cluster) error {
	var err error
	if r.API, err = Connect(own.Kubeconfig(), ""); err != nil {
		return err
	}
	return copyFile(own.Kubeconfig(), r.Kubeconfig())
}
