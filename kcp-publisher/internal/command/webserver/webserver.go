// Package webserver runs the HTTP servers of commands.
package webserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kyma-pull/kyma-pull/internal/cli"
)

// Serve runs the server until the context ends. With a certificate, it uses TLS and reloads changed files.
func Serve(
	ctx context.Context, log logr.Logger, server *http.Server, listener net.Listener, certificate, key string,
) error {
	group, running := errgroup.WithContext(ctx)
	if certificate != "" {
		crlog.SetLogger(log)
		watcher, err := certwatcher.New(certificate, key)
		if err != nil {
			return cli.Usage(fmt.Errorf("--tls-certificate and --tls-key: %w", err))
		}
		group.Go(func() error { return watcher.Start(running) })
		listener = tls.NewListener(listener, &tls.Config{
			GetCertificate: watcher.GetCertificate, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		})
	}
	// The shutdown waits for open requests. This context ends the event streams, which would otherwise stay open.
	server.BaseContext = func(net.Listener) context.Context { return running }
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(func() error {
		<-running.Done()
		deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return server.Shutdown(deadline)
	})
	return group.Wait()
}
