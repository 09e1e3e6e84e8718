package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
	"github.com/sirupsen/logrus"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/registry/remote"
)

// serveBases serves the base image for each architecture to ko at r.baseHost, until the context ends. The base image
// contains the same files as an image from hack/images, except the program.
func (r *release) serveBases(ctx context.Context, scratch string) error {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "localhost:0")
	if err != nil {
		return err
	}
	config := &configuration.Configuration{Storage: configuration.Storage{"inmemory": configuration.Parameters{}}}
	config.Log.AccessLog.Disabled = true
	logrus.SetOutput(io.Discard) // the registry logs each request
	server := &http.Server{Handler: handlers.NewApp(ctx, config), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // returns an error when the server is closed
	context.AfterFunc(ctx, func() { _ = server.Close() })
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return err
	}
	r.baseHost = "localhost:" + port
	to, err := remote.NewRepository(r.baseHost + "/base")
	if err != nil {
		return err
	}
	to.PlainHTTP = true
	for _, p := range r.platforms {
		if p.os != "linux" {
			continue
		}
		if _, err := output(ctx, nil, "go", "run", "./hack/images", "-base", p.arch, "-version", r.version, "-created",
			r.commit.time.Format(time.RFC3339), "-output", scratch); err != nil {
			return err
		}
		from, err := oci.NewFromTar(ctx, filepath.Join(scratch, fmt.Sprintf("base-linux-%s.tar", p.arch)))
		if err != nil {
			return err
		}
		if _, err := oras.Copy(ctx, from, r.version, to, p.arch, oras.DefaultCopyOptions); err != nil {
			return err
		}
	}
	return nil
}
