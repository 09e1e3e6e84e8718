// Command release builds all files for a release into one folder: programs for each platform, images and charts as an
// OCI image layout, CRDs, manifests, bills of materials and checksums. With a key, it adds signatures, provenance and
// attestations. The output is reproducible, except for the signatures. The lists of a release's files are in
// artifacts.go.
//
// With -tools, goreleaser, ko, syft and cosign build the programs, images, bills of materials and signatures. All other
// steps are the same, so both ways produce files with the same names and formats.
package main

import (
	"context"
	"crypto"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is a release that is being built.
type release struct {
	version, images, dir string
	tools                string // folder with goreleaser, ko, syft and cosign, or empty
	baseHost             string // host for the registry with ko's base images
	platforms            []platform
	commit               commit
	key                  crypto.Signer // nil if no key is configured
	// built contains image and chart descriptors by name.
	built map[string]ocispec.Descriptor
}

// semver matches the versions that Helm accepts for a chart.
var semver = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

func run(ctx context.Context, args []string) error {
	r := release{built: map[string]ocispec.Descriptor{}}
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&r.version, "version", "", "version, such as 0.2.0")
	flags.StringVar(&r.dir, "output", "dist", "folder for the release, which must be empty or not exist")
	flags.StringVar(&r.images, "images", "ghcr.io/kyma-pull",
		"HOST/PATH prefix of the names of images and charts")
	flags.StringVar(&r.tools, "tools", "", "folder with goreleaser, ko, syft and cosign, which build the programs, "+
		"images, bills of materials and signatures; default: this command builds them without other programs")
	platforms := flags.String("platforms", supportedPlatforms,
		"platforms of the programs; images are built for Linux platforms")
	push := flags.Bool(
		"push",
		false,
		"push images and charts of the release in -output to -images, with $REGISTRY_USER and "+
			"$REGISTRY_PASSWORD "+
			"or the logins of docker, and build nothing",
	)
	manifests := flags.String(
		"manifests",
		"",
		"write only the manifests for kubectl and kustomize to this folder, from the working tree, with images "+
			"by tag",
	)
	key := flags.String(
		"key",
		"",
		"file with an ECDSA private key in PEM (PKCS #8 or SEC 1), or env:NAME of the variable that contains the key; "+
			"signs the checksums, the provenance, images and charts; default: no signatures",
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	r.version = strings.TrimPrefix(r.version, "v")
	if !semver.MatchString(r.version) {
		return fmt.Errorf("-version %q is not a semantic version such as 0.2.0", r.version)
	}
	if *push {
		return r.push(ctx)
	}
	if *manifests != "" {
		r.dir = *manifests
		return r.writeBases()
	}
	var err error
	if r.platforms, err = parsePlatforms(*platforms); err != nil {
		return fmt.Errorf("-platforms: %w", err)
	}
	if *key != "" {
		if r.key, err = readKey(*key); err != nil {
			return fmt.Errorf("-key: %w", err)
		}
	}
	if r.tools != "" && *platforms != supportedPlatforms {
		return errors.New("-platforms cannot be combined with -tools, because .goreleaser.yaml lists the platforms")
	}
	if r.commit, err = readCommit(ctx); err != nil {
		return err
	}
	return r.build(ctx)
}

func (r *release) build(ctx context.Context) error {
	if left, err := os.ReadDir(r.dir); err == nil && len(left) > 0 {
		return fmt.Errorf("-output %s is not empty: remove it or choose another folder", r.dir)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	scratch, err := os.MkdirTemp("", "kyma-pull-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"programs", func() error { return r.buildPrograms(ctx, scratch) }},
		{"images", func() error { return r.buildImages(ctx, scratch) }},
		{"bills of materials", func() error { return r.writeBills(ctx, scratch) }},
		{"charts", func() error { return r.buildCharts(ctx, scratch) }},
		{"layout", func() error { return r.packLayout(scratch) }},
		{"definitions", r.writeDefinitions},
		{"manifests", r.writeManifests},
		{"packages", r.writePackages},
		{"checksums", r.writeChecksums},
	} {
		fmt.Fprintln(os.Stderr, "building", step.name)
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	if err := r.sign(ctx); err != nil {
		return fmt.Errorf("signatures: %w", err)
	}
	if err := r.checkContents(); err != nil {
		return err
	}
	return r.forEachFile(func(name, _ string) { fmt.Println(filepath.Join(r.dir, name)) })
}
