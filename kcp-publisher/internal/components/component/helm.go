package component

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/strict"
)

const (
	// maxHelmIndexBytes limits the size of an index. The largest public indexes are about 20 MiB.
	maxHelmIndexBytes = 32 << 20
	maxHelmIndexNodes = 2_000_000
	helmTimeout       = time.Minute
)

// helmIndex contains the fields of a Helm repository's index that are needed to find a chart.
//
// Source: Helm, docs/topics/chart_repository, "The index file".
type helmIndex struct {
	Entries map[string][]struct {
		Version string   `json:"version"`
		Digest  string   `json:"digest"`
		URLs    []string `json:"urls"`
	} `json:"entries"`
}

func (r *Reader) locateChart(
	ctx context.Context, c Component, resource ocm.Resource, place store.Store,
) (locatedContent, error) {
	access := resource.Access
	name, version, _ := strings.Cut(access.HelmChart, ":")
	if access.HelmVersion != "" {
		version = access.HelmVersion
	}
	if name == "" || version == "" {
		return locatedContent{}, fmt.Errorf("access.helmChart: %q must be NAME:VERSION", access.HelmChart)
	}
	if strings.HasPrefix(access.HelmRepository, "oci://") {
		return r.locateArtifact(ctx, c, resource, strings.TrimSuffix(access.HelmRepository, "/")+"/"+name+":"+
			strings.ReplaceAll(version, "+", "_"), place)
	}
	data, err := r.helmChart(ctx, access.HelmRepository, name, version)
	if err != nil {
		return locatedContent{}, fmt.Errorf("chart %s:%s of %s: %w", name, version, access.HelmRepository, err)
	}
	found, err := coveredBytes(resource, inMemory(mediaTypeChart, data))
	if err != nil {
		return locatedContent{}, err
	}
	return found,
		r.recordDigest(c, resource, fmt.Sprintf("chart %s:%s of %s", name, version, access.HelmRepository),
			found.Digest)
}

func (r *Reader) helmChart(ctx context.Context, repository, name, version string) ([]byte, error) {
	base, err := r.allowedHelm(repository)
	if err != nil {
		return nil, err
	}
	text, err := r.fetchHelm(ctx, base.JoinPath("index.yaml"), maxHelmIndexBytes)
	if err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	if err := strict.CheckYAML(text, strict.Limits{Documents: 1, Nodes: maxHelmIndexNodes}); err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	var index helmIndex
	if err := yaml.Unmarshal(text, &index); err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	for _, entry := range index.Entries[name] {
		if entry.Version != version && "v"+entry.Version != version {
			continue
		}
		if len(entry.URLs) == 0 {
			return nil, errors.New("index: the chart has no URL")
		}
		at, err := base.JoinPath("/").Parse(entry.URLs[0]) // resolve a relative URL like Helm
		if err != nil {
			return nil, fmt.Errorf("index: url %q: %w", entry.URLs[0], err)
		}
		if _, err := r.allowedHelm(at.String()); err != nil {
			return nil, err
		}
		data, err := r.fetchHelm(ctx, at, bundle.MaxLayerBytes)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(data)
		if stated := strings.TrimPrefix(entry.Digest, "sha256:"); stated != "" &&
			!strings.EqualFold(stated, hex.EncodeToString(sum[:])) {
			return nil, fmt.Errorf("the chart has digest %x, the index has %s", sum, stated)
		}
		return data, nil
	}
	return nil, errors.New("the index does not contain the chart")
}

func (r *Reader) allowedHelm(text string) (*url.URL, error) {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Host == "" || parsed.User != nil {
		return nil, fmt.Errorf("%q is not a URL of a Helm repository", text)
	}
	for _, prefix := range r.HelmRepositories {
		allowed, err := url.Parse(prefix)
		if err == nil && allowed.Scheme == parsed.Scheme && allowed.Host == parsed.Host &&
			(parsed.Path+"/" == strings.TrimSuffix(allowed.Path, "/")+"/" ||
				strings.HasPrefix(path.Clean(parsed.Path)+"/", strings.TrimSuffix(allowed.Path, "/")+"/")) {
			return parsed, nil
		}
	}
	return nil,
		fmt.Errorf(
			"%s://%s is not an allowed Helm repository for charts of components: allow it with "+
				"--helm-repositories", parsed.Scheme, parsed.Host)
}

// newHelmClient returns the client for Helm repositories. It follows redirects only to allowed URLs.
func (r *Reader) newHelmClient() *http.Client {
	var hosts []string
	for _, prefix := range r.HelmRepositories {
		if allowed, err := url.Parse(prefix); err == nil {
			hosts = append(hosts, allowed.Host)
		}
	}
	return store.NewClient(store.ClientOptions{
		Hosts: hosts, Retry: true,
		Redirects: func(next *http.Request, via []*http.Request) error {
			if _, err := r.allowedHelm(next.URL.String()); err != nil {
				return fmt.Errorf("redirected to %s: %w", next.URL.Host, err)
			}
			return store.RedirectsTo(hosts...)(next, via)
		},
	})
}

// fetchHelm fetches a file from a Helm repository, up to limit bytes. It follows redirects only to allowed URLs.
func (r *Reader) fetchHelm(ctx context.Context, from *url.URL, limit int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, helmTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), nil)
	if err != nil {
		return nil, err
	}
	// Disable compression, because the digest in the index covers the bytes as they are transferred.
	request.Header.Set("Accept-Encoding", "identity")
	response, err := r.helm.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get %s: %s", from, response.Status)
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("get %s: more than %d bytes", from, limit)
	}
	return data, err
}
