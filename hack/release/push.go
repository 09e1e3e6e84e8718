package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/retry"
)

// push copies a built release's images and charts into the registry, with the version as the tag. Existing tags are not
// replaced.
func (r *release) push(ctx context.Context) error {
	file := filepath.Join(r.dir, layoutFile(r.version))
	if _, err := os.Stat(file); err != nil {
		return fmt.Errorf("-push: release %s not found in -output %s: %w: build it first", r.version,
			r.dir, err)
	}
	from, err := oci.NewFromTar(ctx, file)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	attestations, err := r.readAttestations()
	if err != nil {
		return err
	}
	client := &auth.Client{Client: retry.DefaultClient, Cache: auth.NewCache()}
	host, _, _ := strings.Cut(r.images, "/")
	if user := os.Getenv("REGISTRY_USER"); user != "" {
		client.Credential = auth.StaticCredential(host, auth.Credential{
			Username: user, Password: os.Getenv("REGISTRY_PASSWORD"),
		})
	} else {
		logins, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
		if err != nil {
			return fmt.Errorf("read the logins of docker: %w", err)
		}
		client.Credential = credentials.Credential(logins)
	}
	for _, name := range ociArtifacts() {
		to, err := remote.NewRepository(r.images + "/" + name)
		if err != nil {
			return fmt.Errorf("-images: %w", err)
		}
		to.Client = client
		// Registries without a referrers API can refuse to delete the previous referrer index.
		to.SkipReferrersGC = true
		// oras and docker also use HTTP for a registry on localhost.
		to.PlainHTTP = strings.HasPrefix(to.Reference.Registry, "localhost:")
		if err := r.pushOne(ctx, from, to, name, attestations); err != nil {
			return fmt.Errorf("%s/%s:%s: %w", r.images, name, r.version, err)
		}
	}
	return nil
}

// pushOne copies an image or chart with its referrers, and attaches its attestations.
func (r *release) pushOne(
	ctx context.Context, from oras.ReadOnlyGraphTarget, to oras.Target, name string, attestations []attestation,
) error {
	wanted, err := from.Resolve(ctx, name+":"+r.version)
	if err != nil {
		return err
	}
	switch there, err := to.Resolve(ctx, r.version); {
	case err == nil && there.Digest != wanted.Digest:
		return fmt.Errorf("already exists with digest %s, but the build has digest %s: build another version",
			there.Digest, wanted.Digest)
	case err != nil && !errors.Is(err, errdef.ErrNotFound):
		return err
	}
	if _, err := oras.ExtendedCopy(ctx, from, name+":"+r.version, to, r.version,
		oras.DefaultExtendedCopyOptions); err != nil {
		return err
	}
	if r.commit.time, err = createdAt(ctx, from, name+":"+r.version); err != nil {
		return err
	}
	if err := r.pushAttestations(ctx, attestations, to, wanted); err != nil {
		return err
	}
	fmt.Printf("%s/%s:%s@%s\n", r.images, name, r.version, wanted.Digest)
	return nil
}

// createdAt returns the creation time from an image's or chart's annotations. The attestations use the same time.
func createdAt(ctx context.Context, from oras.ReadOnlyTarget, name string) (time.Time, error) {
	_, data, err := oras.FetchBytes(ctx, from, name, oras.DefaultFetchBytesOptions)
	if err != nil {
		return time.Time{}, err
	}
	var manifest ocispec.Manifest // an image index has the same annotations
	if err := json.Unmarshal(data, &manifest); err != nil {
		return time.Time{}, err
	}
	at, err := time.Parse(time.RFC3339, manifest.Annotations[ocispec.AnnotationCreated])
	if err != nil {
		return at, fmt.Errorf("annotation %s: %w", ocispec.AnnotationCreated, err)
	}
	return at, nil
}
