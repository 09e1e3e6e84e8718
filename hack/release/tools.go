package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/registry/remote"
)

// goreleaserDir is the output folder in .goreleaser.yaml.
const goreleaserDir = "bin/goreleaser"

// isolatedEnvironment is the environment of builds. GOFLAGS and settings from `go env -w` must not affect them.
var isolatedEnvironment = []string{"CGO_ENABLED=0", "GOFLAGS=", "GOENV=off"}

// tool runs goreleaser, ko, syft or cosign from the folder in -tools.
func (r *release) tool(ctx context.Context, env []string, name string, args ...string) (string, error) {
	return output(ctx, env, filepath.Join(r.tools, name), args...)
}

// goreleaser builds and packs the programs as .goreleaser.yaml defines.
func (r *release) goreleaser(ctx context.Context, scratch string) error {
	_, err := r.tool(ctx, append([]string{"GORELEASER_CURRENT_TAG=v" + r.version}, isolatedEnvironment...), "goreleaser",
		"release", "--clean", "--skip=announce,before,publish,sbom,sign,validate")
	if err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(goreleaserDir, "artifacts.json"))
	if err != nil {
		return err
	}
	var built []struct{ Name, Path, Goos, Goarch, Type string }
	if err := json.Unmarshal(data, &built); err != nil {
		return err
	}
	for _, file := range built {
		to, mode := "", fs.FileMode(0o644)
		switch file.Type {
		case "Binary":
			to, mode = binary(scratch, platform{file.Goos, file.Goarch}, file.Name), 0o755
		case "Archive":
			to = filepath.Join(r.dir, file.Name)
		default:
			continue
		}
		data, err := os.ReadFile(file.Path)
		if err != nil {
			return err
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, data, mode)); err != nil {
			return err
		}
	}
	return nil
}

// koImage builds a program's image for one platform as .ko.yaml defines, and adds it to the layout.
func (r *release) koImage(
	ctx context.Context, layout *oci.Store, p platform, program string,
) (ocispec.Descriptor, error) {
	var none ocispec.Descriptor
	env := append([]string{
		"VERSION=" + r.version, "KO_DOCKER_REPO=" + r.baseHost, "KO_DEFAULTBASEIMAGE=" + r.baseHost + "/base:" + p.arch,
		"SOURCE_DATE_EPOCH=" + strconv.FormatInt(r.commit.time.Unix(), 10),
	}, isolatedEnvironment...)
	args := []string{
		"build", "--base-import-paths", "--sbom=none", "--tags=" + p.arch, "--platform=" + p.os + "/" + p.arch,
	}
	for name, value := range map[string]string{
		ocispec.AnnotationTitle: program, ocispec.AnnotationVersion: r.version, ocispec.AnnotationLicenses: "Apache-2.0",
	} {
		args = append(args, "--image-label="+name+"="+value)
	}
	if _, err := r.tool(ctx, env, "ko", append(args, "./"+program)...); err != nil {
		return none, err
	}
	from, err := remote.NewRepository(r.baseHost + "/" + program)
	if err != nil {
		return none, err
	}
	from.PlainHTTP = true
	_, data, err := oras.FetchBytes(ctx, from, p.arch, oras.DefaultFetchBytesOptions)
	if err != nil {
		return none, err
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(data, &manifest); err != nil {
		return none, err
	}
	for _, blob := range append([]ocispec.Descriptor{manifest.Config}, manifest.Layers...) {
		data, err := content.FetchAll(ctx, from, blob)
		if err != nil {
			return none, err
		}
		if _, err := pushOnce(ctx, layout, blob.MediaType, data); err != nil {
			return none, err
		}
	}
	// ko's annotations contain the local registry's address, which differs between builds.
	manifest.Annotations = nil
	if data, err = json.Marshal(manifest); err != nil {
		return none, err
	}
	return pushOnce(ctx, layout, manifest.MediaType, data)
}

// syftBill returns a program's bill of materials. It replaces the parts that differ between builds: the serial number,
// the time, and the program's reference, which syft derives from the file's path.
func (r *release) syftBill(ctx context.Context, program, file string) (*cyclonedx.BOM, error) {
	text, err := r.tool(ctx, []string{"SYFT_CHECK_FOR_APP_UPDATE=false"}, "syft", "scan", "--quiet", "file:"+file,
		"--source-name="+program, "--source-version="+r.version, "--output=cyclonedx-json")
	if err != nil {
		return nil, err
	}
	var bom cyclonedx.BOM
	decoder := cyclonedx.NewBOMDecoder(strings.NewReader(text), cyclonedx.BOMFileFormatJSON)
	if err := decoder.Decode(&bom); err != nil {
		return nil, fmt.Errorf("read the output of syft: %w", err)
	}
	bom.SerialNumber, bom.Metadata.Timestamp = "", r.commit.time.Format(time.RFC3339)
	if bom.Metadata.Component != nil {
		bom.Metadata.Component.BOMRef = program
	}
	return &bom, nil
}

// cosign signs with the program cosign, which requires a key in cosign's own format. It does not use the public
// transparency log.
type cosign struct {
	r *release
	// dir contains the key and temporary files.
	dir string
}

func (r *release) newCosign(ctx context.Context, dir string) (cosign, error) {
	der, err := x509.MarshalPKCS8PrivateKey(r.key)
	if err != nil {
		return cosign{}, err
	}
	file := filepath.Join(dir, "key.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		return cosign{}, err
	}
	_, err = r.tool(ctx, []string{"COSIGN_PASSWORD="}, "cosign", "import-key-pair", "--yes", "--key="+file,
		"--output-key-prefix="+filepath.Join(dir, "cosign"))
	return cosign{r, dir}, err
}

// sign runs a cosign command, and returns the resulting bundle.
func (c cosign) sign(ctx context.Context, data []byte, command string, args ...string) (sigstoreBundle, error) {
	var b sigstoreBundle
	in, out := filepath.Join(c.dir, "in"), filepath.Join(c.dir, "out")
	if err := os.WriteFile(in, data, 0o600); err != nil {
		return b, err
	}
	args = append([]string{
		command, "--yes", "--key=" + filepath.Join(c.dir, "cosign.key"), "--tlog-upload=false",
		"--use-signing-config=false", "--bundle=" + out,
	}, args...)
	if _, err := c.r.tool(ctx, []string{"COSIGN_PASSWORD="}, "cosign", append(args, in)...); err != nil {
		return b, err
	}
	signed, err := os.ReadFile(out)
	if err != nil {
		return b, err
	}
	return b, json.Unmarshal(signed, &b)
}

func (c cosign) file(ctx context.Context, data []byte) ([]byte, error) {
	b, err := c.sign(ctx, data, "sign-blob")
	if err == nil && b.Signature == nil {
		err = errors.New("cosign's bundle has no signature")
	}
	if err != nil {
		return nil, err
	}
	return b.Signature.Signature, nil
}

func (c cosign) statement(ctx context.Context, payload []byte) (*dsse.Envelope, error) {
	b, err := c.sign(ctx, payload, "attest-blob", "--statement")
	if err == nil && b.Envelope == nil {
		err = errors.New("cosign's bundle has no envelope")
	}
	return b.Envelope, err
}
