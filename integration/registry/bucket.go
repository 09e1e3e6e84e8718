package registry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// EnvDistribution and EnvVersitygw are environment variables with the paths of two programs: distribution's registry
// with its S3 driver, and versity's S3 gateway.
const (
	EnvDistribution = "DISTRIBUTION"
	EnvVersitygw    = "VERSITYGW"
)

// ErrNoBucket means that this machine has no S3 gateway or no registry with an S3 driver.
var ErrNoBucket = errors.New("programs for the registry on S3 not found: set $" + EnvDistribution + " and $" +
	EnvVersitygw + " to their paths, as `make test-s3` does")

// Bucket is an S3 gateway with its data in a folder, and a registry with its data in a bucket of the gateway.
type Bucket struct {
	// Host and Gateway are the addresses of the registry and the gateway. Direct is the address of a second registry
	// that does not redirect clients.
	Host, Gateway, Direct string
	dir                   string
	gateway               *exec.Cmd
	registries            []*exec.Cmd
}

const (
	bucketName = "fleet"
	accessKey  = "access"
	secretKey  = "not-a-secret-of-anybody"
)

// StartBucket starts the gateway and the registries with their data in a folder.
func StartBucket(ctx context.Context, dir string) (*Bucket, error) {
	if os.Getenv(EnvDistribution) == "" || os.Getenv(EnvVersitygw) == "" {
		return nil, ErrNoBucket
	}
	b := &Bucket{dir: dir}
	for _, folder := range []string{filepath.Join(b.data(), bucketName), b.metadata()} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, err
		}
	}
	var listeners []net.Listener
	defer func() {
		for _, listener := range listeners {
			_ = listener.Close() // fails if the loop below has already closed the listener
		}
	}()
	for _, address := range []*string{&b.Gateway, &b.Host, &b.Direct} {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		*address = listener.Addr().String()
		listeners = append(listeners, listener)
	}
	for _, listener := range listeners { // all listeners stay open until here, so that the three ports differ
		if err := listener.Close(); err != nil {
			return nil, err
		}
	}
	if err := b.Resume(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	for _, at := range []struct {
		address  string
		redirect bool
	}{{b.Host, true}, {b.Direct, false}} {
		if err := b.serve(ctx, at.address, at.redirect); err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	return b, nil
}

func (b *Bucket) data() string     { return filepath.Join(b.dir, "data") }
func (b *Bucket) metadata() string { return filepath.Join(b.dir, "metadata") }

// serve starts a registry that uses the bucket.
func (b *Bucket) serve(ctx context.Context, address string, redirect bool) error {
	path := filepath.Join(b.dir, fmt.Sprintf("registry-redirect-%v.yaml", redirect))
	config := fmt.Sprintf(`version: 0.1
log: {level: error, accesslog: {disabled: true}}
storage:
  s3: {accesskey: %s, secretkey: %s, region: us-east-1, regionendpoint: "http://%s", forcepathstyle: true, bucket: %s, secure: false}
  redirect: {disable: %v}
  delete: {enabled: true}
  maintenance: {uploadpurging: {enabled: false}}
http: {addr: "%s", secret: loopback}
`, accessKey, secretKey, b.Gateway, bucketName, !redirect, address)
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return err
	}
	registry, err := b.start(ctx, os.Getenv(EnvDistribution), address+"/v2/", "serve", path)
	if registry != nil {
		b.registries = append(b.registries, registry)
	}
	return err
}

// Stop stops the S3 gateway. The data remains.
func (b *Bucket) Stop() error {
	if b.gateway == nil {
		return nil
	}
	err := end(b.gateway)
	b.gateway = nil
	return err
}

// Resume starts the gateway again at the same address.
func (b *Bucket) Resume(ctx context.Context) (err error) {
	b.gateway, err = b.start(ctx, os.Getenv(EnvVersitygw), b.Gateway, "--access", accessKey, "--secret", secretKey,
		"--port", b.Gateway, "--quiet",
		"posix", "--sidecar", b.metadata(), b.data())
	return err
}

// start starts a program and waits until its address accepts connections.
func (b *Bucket) start(ctx context.Context, program, address string, args ...string) (*exec.Cmd, error) {
	log, err := os.OpenFile(filepath.Join(b.dir, filepath.Base(program)+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY,
		0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(program, args...) //nolint:gosec // the path comes from the test's environment
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address, http.NoBody)
		if err != nil {
			return cmd, err
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			return cmd, response.Body.Close()
		}
		select {
		case <-ctx.Done():
			return cmd, fmt.Errorf("%s does not respond: %w", program, err)
		case <-tick.C:
		}
	}
}

func end(cmd *exec.Cmd) error {
	err := cmd.Process.Kill()
	_ = cmd.Wait() // returns the error "signal: killed"
	return err
}

// Close stops all programs.
func (b *Bucket) Close() error {
	err := b.Stop()
	for _, registry := range b.registries {
		err = errors.Join(err, end(registry))
	}
	b.registries = nil
	return err
}
