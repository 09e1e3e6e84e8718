package isolation

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// Runtime is one of the two runtimes in a check. Registries has the runtime's credentials.
type Runtime struct {
	ID         string
	Registries *store.Registries
}

// Options configures Check.
type Options struct {
	// Location is the registry prefix HOST/PATH.
	Location string
	// Own is the runtime that sends forbidden requests. Other is the runtime whose data it requests.
	Own, Other Runtime
	// Anonymous does not have credentials.
	Anonymous *store.Registries
	// Random provides random bytes for unique blobs and tags.
	Random io.Reader
}

// Finding is one probe with the registry's response.
type Finding struct {
	What    string `json:"what"`
	Request string `json:"request"`
	Status  int    `json:"status"`
	Leaks   bool   `json:"leaks"`
	// LeftOver is true if the blob existed in the repository before the probe. The response is then inconclusive.
	LeftOver bool `json:"leftOver,omitempty"`
}

// Leak is the error for a registry that does not isolate runtimes.
type Leak struct {
	Location string
	Findings int
}

func (l *Leak) Error() string {
	return fmt.Sprintf(
		"registry %s does not isolate runtimes from each other: it accepted %d forbidden requests: see "+
			"docs/guides/registry.md",
		l.Location, l.Findings)
}

const maxAnswerBytes = 4 << 20

// Check runs all probes. The error is a *Leak if a forbidden request succeeded. Any other error means that the result
// is unknown. leftovers lists the objects that could not be deleted afterwards, even if Check returns an
// error.
func Check(ctx context.Context, o Options) (findings []Finding, leftovers []string, err error) {
	s, err := prepare(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	tidy := newTidier(o, s)
	defer func() { leftovers = tidy.deleteAll(ctx) }()
	if s.leftOver, err = s.findLeftOver(ctx, o); err != nil {
		return nil, nil, err
	}
	tidy.stage = s
	findings, err = s.runProbes(ctx, o, tidy)
	return findings, nil, err
}

// findLeftOver returns the other runtime's blobs that exist in the runtime's own report repository before the first
// probe. If the registry serves every blob in every repository, it returns nil, because the probes report this leak.
func (s checkStage) findLeftOver(ctx context.Context, o Options) ([]digest.Digest, error) {
	found := func(d digest.Digest) (bool, error) {
		reading := probe{
			method: http.MethodHead, path: "/v2/" + s.prefix + "/" + bundle.ReportRepository(s.ownRepository) + "/blobs/" +
				d.String(),
		}
		got, err := send(ctx, o.Own.Registries, o.Location, reading)
		return got.status == http.StatusOK, err
	}
	if leaks, err := found(s.secret); leaks || err != nil {
		return nil, err
	}
	var all []digest.Digest
	for _, d := range s.blobs {
		there, err := found(d)
		if err != nil {
			return nil, err
		}
		if there {
			all = append(all, d)
		}
	}
	return all, nil
}

func (s checkStage) runProbes(ctx context.Context, o Options, tidy *cleaner) ([]Finding, error) {
	var findings []Finding
	leaks := 0
	for _, p := range s.probes() {
		registries := o.Own.Registries
		if p.anonymous {
			registries = o.Anonymous
		}
		got, err := send(ctx, registries, o.Location, p)
		if err != nil {
			return findings, fmt.Errorf("%s: %w", p.description, err)
		}
		tidy.record(p, got)
		if isUndecided(got.status) {
			return findings,
				fmt.Errorf(
					"%s: %s %s: status %d does not show whether access is allowed: try again later",
					p.description, p.method, p.path, got.status)
		}
		f := Finding{
			What: p.description, Request: p.method + " " + p.path, Status: got.status,
			Leaks: s.isAllowed(p, got.status, got.body),
		}
		if f.Leaks && p.inconclusive {
			f.Leaks, f.LeftOver = false, true
		}
		if f.Leaks {
			leaks++
		}
		findings = append(findings, f)
	}
	if leaks > 0 {
		return findings, &Leak{Location: o.Location, Findings: leaks}
	}
	return findings, nil
}

// prepare reads the probes' inputs with requests that the registry must accept. Without these requests, a registry that
// refuses every request would pass the check.
func prepare(ctx context.Context, o Options) (checkStage, error) {
	_, prefix, _ := strings.Cut(o.Location, "/")
	s := checkStage{prefix: prefix, ownRepository: o.Own.ID, other: o.Other.ID}
	if s.ownRepository == s.other {
		return s, errors.New("the two runtimes must be different")
	}
	_, known, err := readBundle(ctx, o.Location, o.Own)
	if err != nil {
		return s, err
	}
	manifest, blobs, err := readBundle(ctx, o.Location, o.Other)
	if err != nil {
		return s, err
	}
	s.manifest = manifest
	s.blobs = slices.DeleteFunc(blobs, func(d digest.Digest) bool { return slices.Contains(known, d) })
	name := make([]byte, 8)
	if _, err := io.ReadFull(o.Random, name); err != nil {
		return s, err
	}
	s.checkName = hex.EncodeToString(name)
	for _, runtime := range []Runtime{o.Own, o.Other} {
		if s.secret, err = pushUniqueBlob(ctx, o.Location, runtime, o.Random); err != nil {
			return s, err
		}
		if runtime.ID == s.ownRepository {
			s.ownSecret = s.secret
		}
	}
	return s, nil
}

// readBundle reads a runtime's own bundle and returns the digests of its manifest and blobs.
func readBundle(ctx context.Context, location string, runtime Runtime) (digest.Digest, []digest.Digest, error) {
	place, err := store.Open(location, runtime.Registries)
	if err != nil {
		return "", nil, err
	}
	repository, err := place.Reading(ctx, bundle.DesiredRepository(runtime.ID))
	if err != nil {
		return "", nil, err
	}
	fetched, err := store.Fetch(ctx, repository, bundle.TagDesired)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil,
			fmt.Errorf("runtime %s has no bundle: publish a bundle to both runtimes first: %w", runtime.ID, err)
	}
	if err != nil {
		return "", nil, fmt.Errorf("runtime %s cannot read its own bundle: %w", runtime.ID, err)
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(fetched.Bytes, &manifest); err != nil {
		return "", nil, fmt.Errorf("bundle of runtime %s: %w", runtime.ID, err)
	}
	blobs := []digest.Digest{manifest.Config.Digest}
	for _, layer := range manifest.Layers {
		blobs = append(blobs, layer.Digest)
	}
	for _, d := range blobs {
		if err := d.Validate(); err != nil {
			return "", nil, fmt.Errorf("bundle of runtime %s: digest: %w", runtime.ID, err)
		}
	}
	return digest.FromBytes(fetched.Bytes), blobs, nil
}

// pushUniqueBlob pushes a unique blob and the empty blob to a runtime's report repository.
func pushUniqueBlob(ctx context.Context, location string, runtime Runtime, random io.Reader) (digest.Digest, error) {
	place, err := store.Open(location, runtime.Registries)
	if err != nil {
		return "", err
	}
	repository, err := place.Repository(ctx, bundle.ReportRepository(runtime.ID))
	if err != nil {
		return "", err
	}
	data := make([]byte, 64)
	if _, err := io.ReadFull(random, data); err != nil {
		return "", err
	}
	secret := bundle.NewBlob("application/octet-stream", data)
	for _, blob := range []bundle.Blob{bundle.EmptyBlob(), secret} {
		if err := store.PushBlob(ctx, repository, blob); err != nil {
			return "", fmt.Errorf("runtime %s cannot write its own report: %w", runtime.ID, err)
		}
	}
	if _, err := store.FetchBlob(ctx, repository, secret.Descriptor, int64(len(data))); err != nil {
		return "", fmt.Errorf("runtime %s cannot read its own report: %w", runtime.ID, err)
	}
	return secret.Descriptor.Digest, nil
}

type probeReply struct {
	status   int
	body     []byte
	location string
}

// send sends a probe's request. The client sends its credentials only after a challenge from the registry.
func send(ctx context.Context, registries *store.Registries, location string, p probe) (probeReply, error) {
	repository, err := registries.Repository(location)
	if err != nil {
		return probeReply{}, err
	}
	scheme := "https"
	if repository.PlainHTTP {
		scheme = "http"
	}
	request, err := http.NewRequestWithContext(ctx, p.method, scheme+"://"+repository.Reference.Host()+p.path,
		bytes.NewReader(p.body))
	if err != nil {
		return probeReply{}, err
	}
	request.Header.Set("Accept", ocispec.MediaTypeImageManifest+", */*")
	if p.body != nil {
		request.Header.Set("Content-Type", ocispec.MediaTypeImageManifest)
	}
	response, err := repository.Client.Do(request)
	if status, ok := store.StatusOf(err); ok {
		// A token service that does not issue a token has refused the request, unless the service is unavailable.
		if !isUndecided(status) {
			status = http.StatusUnauthorized
		}
		return probeReply{status: status}, nil
	}
	if err != nil {
		return probeReply{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	return probeReply{response.StatusCode, body, response.Header.Get("Location")}, err
}
