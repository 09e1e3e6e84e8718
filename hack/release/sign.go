package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

// writeChecksums writes the checksums of the release's files in sha256sum's format.
func (r *release) writeChecksums() error {
	var lines strings.Builder
	err := r.forEachFile(func(name, sum string) { fmt.Fprintf(&lines, "%s  %s\n", sum, name) })
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dir, checksumsFile), []byte(lines.String()), 0o644)
}

// forEachFile calls the function do with the name and SHA-256 of each file in the release, sorted by name.
func (r *release) forEachFile(do func(name, sum string)) error {
	return fs.WalkDir(os.DirFS(r.dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		file, err := os.Open(filepath.Join(r.dir, name))
		if err != nil {
			return err
		}
		defer file.Close()
		hash := sha256.New()
		if _, err := io.Copy(hash, file); err != nil {
			return err
		}
		do(name, hex.EncodeToString(hash.Sum(nil)))
		return nil
	})
}

func readKey(path string) (crypto.Signer, error) {
	var data []byte
	if variable, named := strings.CutPrefix(path, "env:"); named {
		data = []byte(os.Getenv(variable))
	} else {
		var err error
		if data, err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s: no PEM block found", path)
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s contains a key of type %T, expected ECDSA", path, parsed)
	}
	return key, nil
}

// sign signs the checksums, and writes the provenance and the attestations. Without a key, it does nothing.
func (r *release) sign(ctx context.Context) error {
	if r.key == nil {
		return nil
	}
	with := signing(signerOf{r.key})
	if r.tools != "" {
		dir, err := os.MkdirTemp("", "kyma-pull-cosign-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if with, err = r.newCosign(ctx, dir); err != nil {
			return err
		}
	}
	sums, err := os.ReadFile(filepath.Join(r.dir, checksumsFile))
	if err != nil {
		return err
	}
	signature, err := with.file(ctx, sums)
	if err != nil {
		return err
	}
	bundle, err := r.signedFile(sums, signature)
	if err != nil {
		return err
	}
	envelope, err := r.provenance(ctx, with)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(r.key.Public())
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		checksumsFile + ".sig": []byte(base64.StdEncoding.EncodeToString(signature) + "\n"),
		checksumsBundle:        append(bundle, '\n'),
		provenanceFile:         append(envelope, '\n'),
		publicKeyFile:          pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
	} {
		if err := os.WriteFile(filepath.Join(r.dir, name), data, 0o644); err != nil {
			return err
		}
	}
	return r.writeAttestations(ctx, with)
}

// provenance returns a signed statement about the release's files and their commit.
//
// Source: in-toto attestation framework, Statement v1; SLSA, Provenance v1.
func (r *release) provenance(ctx context.Context, with signing) ([]byte, error) {
	var subjects []subject
	if err := r.forEachFile(func(name, sum string) {
		subjects = append(subjects, subject{name, map[string]string{"sha256": sum}})
	}); err != nil {
		return nil, err
	}
	predicate, err := r.slsa()
	if err != nil {
		return nil, err
	}
	signed, err := envelope(ctx, with, subjects, predicateSLSA, predicate)
	if err != nil {
		return nil, err
	}
	return json.Marshal(signed)
}

// slsa returns the predicate of the provenance.
func (r *release) slsa() (json.RawMessage, error) {
	platforms := make([]string, len(r.platforms))
	for i, p := range r.platforms {
		platforms[i] = p.os + "/" + p.arch
	}
	parameters := map[string]any{"version": r.version, "images": r.images, "platforms": platforms}
	if r.tools != "" {
		parameters["tools"] = []string{"goreleaser", "ko", "syft", "cosign"}
	}
	return json.Marshal(map[string]any{
		"buildDefinition": map[string]any{
			"buildType":          releaseBuildType,
			"externalParameters": parameters,
			"resolvedDependencies": []any{
				map[string]any{
					"uri":    "git+https://github.com/kyma-pull/kyma-pull",
					"digest": map[string]string{"gitCommit": r.commit.hash},
				},
			},
		},
		"runDetails": map[string]any{"builder": map[string]string{"id": releaseBuildType}},
	})
}

// signing signs files and in-toto statements, in this program or with cosign.
type signing interface {
	// file returns the ASN.1 signature of a file's SHA-256.
	file(ctx context.Context, data []byte) ([]byte, error)
	// statement returns a DSSE envelope with an in-toto statement.
	statement(ctx context.Context, payload []byte) (*dsse.Envelope, error)
}

// signerOf signs in this program. It also implements the signer interface of package dsse.
type signerOf struct{ crypto.Signer }

func (s signerOf) file(ctx context.Context, data []byte) ([]byte, error) { return s.Sign(ctx, data) }

func (s signerOf) statement(ctx context.Context, payload []byte) (*dsse.Envelope, error) {
	signer, err := dsse.NewEnvelopeSigner(s)
	if err != nil {
		return nil, err
	}
	return signer.SignPayload(ctx, mediaTypeInToto, payload)
}

func (s signerOf) Sign(_ context.Context, data []byte) ([]byte, error) {
	digest := sha256.Sum256(data)
	return s.Signer.Sign(rand.Reader, digest[:], crypto.SHA256)
}

func (s signerOf) KeyID() (string, error) {
	public, err := x509.MarshalPKIXPublicKey(s.Public())
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:]), nil
}
