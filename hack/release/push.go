package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/retry"
)

// push copies images and charts of a release that was built into the registry, each under its name there and the
// version as its tag: the names that the charts have as defaults, and those of docs/guides/verify-a-release.md. A tag
// that is there is not replaced.
func (r *release) push(ctx context.Context) error {
	file := filepath.Join(r.dir, layoutFile(r.version))
	if _, err := os.Stat(file); err != nil {
		return fmt.Errorf("-push: there is no release %s in -output %s: build it first: %w", r.version, r.dir, err)
	}
	from, err := oci.NewFromTar(ctx, file)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	client := &auth.Client{Client: retry.DefaultClient, Cache: auth.NewCache()}
	host, _, _ := strings.Cut(r.images, "/")
	if user := os.Getenv("REGISTRY_USER"); user != "" {
		client.Credential = auth.StaticCredential(host, auth.Credential{Username: user, Password: os.Getenv("REGISTRY_PASSWORD")})
	} else {
		logins, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
		if err != nil {
			return fmt.Errorf("logins of docker: %w", err)
		}
		client.Credential = credentials.Credential(logins)
	}
	for _, name := range artifacts() {
		to, err := remote.NewRepository(r.images + "/" + name)
		if err != nil {
			return fmt.Errorf("-images: %w", err)
		}
		to.Client = client
		to.PlainHTTP = strings.HasPrefix(to.Reference.Registry, "localhost:") // as oras and docker do
		if err := r.pushOne(ctx, from, to, name); err != nil {
			return fmt.Errorf("%s/%s:%s: %w", r.images, name, r.version, err)
		}
	}
	return nil
}

// artifacts are the names of what the layout has for a registry.
func artifacts() (names []string) {
	for _, program := range programs {
		names = append(names, program, "charts/"+program)
	}
	return names
}

func (r *release) pushOne(ctx context.Context, from oras.ReadOnlyTarget, to oras.Target, name string) error {
	wanted, err := from.Resolve(ctx, name+":"+r.version)
	if err != nil {
		return err
	}
	switch there, err := to.Resolve(ctx, r.version); {
	case err == nil && there.Digest != wanted.Digest:
		return fmt.Errorf("is there already as %s, and is %s here: a release is not replaced, make another version", there.Digest, wanted.Digest)
	case err != nil && !errors.Is(err, errdef.ErrNotFound):
		return err
	}
	if _, err := oras.Copy(ctx, from, name+":"+r.version, to, r.version, oras.DefaultCopyOptions); err != nil {
		return err
	}
	fmt.Printf("%s/%s:%s@%s\n", r.images, name, r.version, wanted.Digest)
	return nil
}
