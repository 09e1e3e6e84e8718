package cluster

import (
	"errors"
	"fmt"
	"os"
)

func (s *server) backup(dir string) error {
	return s.whileStopped(func(data string) error { return os.CopyFS(dir, os.DirFS(data)) })
}

func (s *server) restore(dir string) error {
	return s.whileStopped(func(data string) error {
		return errors.Join(os.RemoveAll(data), os.CopyFS(data, os.DirFS(dir)))
	})
}

// whileStopped stops etcd and the API server, calls the function change with the path of etcd's data folder, and
// starts both programs again.
func (s *server) whileStopped(change func(data string) error) error {
	etcd := s.env.ControlPlane.Etcd
	if err := s.pause(); err != nil {
		return err
	}
	if err := errors.Join(etcd.Stop(), s.reaper.forget("etcd")); err != nil {
		return fmt.Errorf("stop etcd: %w", err)
	}
	if err := change(etcd.DataDir); err != nil {
		return fmt.Errorf("copy the data of etcd: %w", err)
	}
	if err := etcd.Start(); err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	return s.resume()
}
