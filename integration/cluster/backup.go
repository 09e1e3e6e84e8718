package cluster

import (
	"errors"
	"fmt"
	"os"
)

// Backup copies what etcd has to a new folder. The API server is away meanwhile: only the files of an etcd that is stopped are whole.
func (c *Cluster) Backup(dir string) error {
	return c.whileStopped(func(data string) error { return os.CopyFS(dir, os.DirFS(data)) })
}

// Restore gives etcd what it had at a Backup. Config and the users' configurations stay good; whatever was written since then is gone.
func (c *Cluster) Restore(dir string) error {
	return c.whileStopped(func(data string) error {
		return errors.Join(os.RemoveAll(data), os.CopyFS(data, os.DirFS(dir)))
	})
}

// whileStopped changes etcd's data while neither etcd nor the API server runs.
func (c *Cluster) whileStopped(change func(data string) error) error {
	etcd := c.env.ControlPlane.Etcd
	if err := c.Pause(); err != nil {
		return err
	}
	if err := errors.Join(etcd.Stop(), c.reaper.forget("etcd")); err != nil {
		return fmt.Errorf("stop etcd: %w", err)
	}
	if err := change(etcd.DataDir); err != nil {
		return fmt.Errorf("copy the data of etcd: %w", err)
	}
	if err := etcd.Start(); err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	return c.Resume()
}
