// Package isolation checks whether a running registry isolates runtimes from each other. With two runtimes'
// credentials, it sends each request that is known to have leaked data from some registry. It writes only new
// objects, deletes them afterwards, and lists the remaining ones.
//
// Source: OCI distribution-spec 1.1; zot CVE-2024-39897 (others' blobs by digest, through deduplication); distribution
// CVE-2023-2253 (catalog).
package isolation

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// rule defines which responses mean that the registry allowed a forbidden request.
type rule int

const (
	// mustNotRead treats each successful response as a leak.
	mustNotRead rule = iota
	// mustNotMount treats status 201 as a leak. Status 202 is allowed, because it only starts an upload: the client
	// must still send the blob's bytes.
	mustNotMount
	// mustNotWrite treats a successful response as a leak, and also an error that only clients with write access
	// receive.
	mustNotWrite
	// mustNotList treats a response that contains another runtime's repositories as a leak.
	mustNotList
)

// probe is a request that the registry must refuse.
type probe struct {
	description string
	anonymous   bool
	method      string
	// path is the path of the URL. Some probes use unusual spellings on purpose.
	path string
	body []byte
	rule rule
	// inconclusive is true if an earlier check may have written the requested blob.
	inconclusive bool
}

// checkTag is the prefix of the tags that the write probes push.
const checkTag = "kyma-pull-isolation-check-"

// checkStage contains the probes' inputs: the fleet's path, the two runtimes, and the objects that only the other
// runtime has.
type checkStage struct {
	prefix        string
	ownRepository string
	other         string
	manifest      digest.Digest   // the other runtime's bundle manifest
	blobs         []digest.Digest // blobs that are only in the other runtime's bundle
	// secret is a new blob in the other runtime's report repository. ownSecret is a new blob in the runtime's
	// own report repository.
	secret, ownSecret digest.Digest
	checkName         string // unique name of this check
	// leftOver contains the other runtime's blobs that were in the runtime's own report repository before the first
	// probe.
	leftOver []digest.Digest
}

// probes returns the probes in the order of their execution. Mounts are near the end, because a successful mount
// changes read results. Each mount is followed by a read of the mounted blob.
func (s checkStage) probes() []probe {
	var all []probe
	add := func(rule rule, method, path, what string) {
		all = append(all, probe{description: what, method: method, path: path, rule: rule, body: s.body(method)})
	}
	repository := func(name string) string { return "/v2/" + s.prefix + "/" + name }
	ownBundle, ownReport := repository(bundle.DesiredRepository(s.ownRepository)),
		repository(bundle.ReportRepository(s.ownRepository))
	bundleOf, reportOf := repository(bundle.DesiredRepository(s.other)), repository(bundle.ReportRepository(s.other))
	documents, content := repository(bundle.DocumentsRepository), repository(bundle.ContentRepository)

	add(mustNotRead, http.MethodGet, bundleOf+"/manifests/"+bundle.TagDesired, "read another runtime's bundle")
	add(mustNotRead, http.MethodHead, bundleOf+"/manifests/"+s.manifest.String(),
		"ask for another runtime's bundle by digest")
	add(mustNotRead, http.MethodGet, ownBundle+"/manifests/"+s.manifest.String(),
		"read another runtime's bundle from its own repository")
	add(mustNotRead, http.MethodGet, reportOf+"/manifests/"+bundle.TagLatest, "read another runtime's report")
	for _, spelling := range []struct{ path, what string }{
		{ownBundle + "/../" + s.other, "through a parent path"}, {
			ownBundle + "/%2e%2e/" + s.other, "through an escaped parent path",
		},
		{"/v2//" + strings.TrimPrefix(bundleOf, "/v2/"), "with doubled slashes"}, {
			strings.Replace(bundleOf, "/runtimes/", "/runtimes%2f", 1), "with an escaped slash",
		},
		{strings.ToUpper(bundleOf[:4]) + bundleOf[4:], "below another spelling of /v2/"},
	} {
		add(mustNotRead, http.MethodGet, spelling.path+"/manifests/"+bundle.TagDesired,
			"read another runtime's bundle "+spelling.what)
	}
	hidden := append([]digest.Digest{s.secret}, s.blobs...)
	for _, d := range hidden {
		holder := bundleOf
		if d == s.secret {
			holder = reportOf
		}
		add(mustNotRead, http.MethodGet, holder+"/blobs/"+d.String(), "read another runtime's blob")
		for _, from := range []string{ownBundle, ownReport, content} {
			add(mustNotRead, http.MethodHead, from+"/blobs/"+d.String(), "find another runtime's blob by its digest")
		}
	}
	for _, listed := range []string{bundleOf, reportOf, documents} {
		add(mustNotRead, http.MethodGet, listed+"/tags/list", "list tags of other repositories")
	}
	for _, last := range []string{s.prefix + "/" + bundle.ReportRepository(""),
		s.prefix + "/" + bundle.DesiredRepository("")} {
		add(mustNotList, http.MethodGet, "/v2/_catalog?"+url.Values{"n": {"100"}, "last": {last}}.Encode(),
			"see other repositories in the catalog")
	}
	for _, target := range []string{reportOf, bundleOf, ownBundle, documents, content, repository("trust")} {
		what := "write to a forbidden repository"
		switch target {
		case reportOf:
			what = "write another runtime's report"
		case ownBundle:
			what = "write its own desired state"
		}
		add(mustNotWrite, http.MethodPost, target+"/blobs/uploads/", what)
		add(mustNotWrite, http.MethodPut, target+"/manifests/"+checkTag+s.checkName, what)
	}
	for _, anonymous := range []struct{ path, what string }{
		{bundleOf + "/manifests/" + bundle.TagDesired, "read a bundle without a password"},
		{reportOf + "/blobs/" + s.secret.String(), "read a blob without a password"},
	} {
		add(mustNotRead, http.MethodGet, anonymous.path, anonymous.what)
		all[len(all)-1].anonymous = true
	}
	for _, d := range hidden {
		for _, from := range []string{bundle.ReportRepository(s.other), bundle.DesiredRepository(s.other),
			bundle.DocumentsRepository, ""} {
			query := url.Values{"mount": {d.String()}}
			if from != "" {
				query.Set("from", s.prefix+"/"+from)
			}
			add(mustNotMount, http.MethodPost, ownReport+"/blobs/uploads/?"+query.Encode(),
				"mount another runtime's blob")
			add(mustNotRead, http.MethodGet, ownReport+"/blobs/"+d.String(),
				"read another runtime's blob after trying to mount it")
		}
	}
	// This probe is last, because the other probes request the blob.
	add(mustNotWrite, http.MethodDelete, reportOf+"/blobs/"+s.secret.String(), "delete another runtime's blob")
	for i := range all {
		all[i].inconclusive = strings.HasPrefix(all[i].path, ownReport+"/") &&
			slices.ContainsFunc(s.leftOver, func(d digest.Digest) bool {
				return strings.Contains(all[i].path, d.String()) ||
					strings.Contains(all[i].path, url.QueryEscape(d.String()))
			})
	}
	return all
}

// body returns the manifest for write probes, or nil for other probes.
func (s checkStage) body(method string) []byte {
	if method != http.MethodPut {
		return nil
	}
	empty := bundle.EmptyBlob().Descriptor
	manifest := ocispec.Manifest{
		MediaType: ocispec.MediaTypeImageManifest, ArtifactType: bundle.ArtifactTypeReport, Config: empty,
		Layers:      []ocispec.Descriptor{empty},
		Annotations: map[string]string{ocispec.AnnotationTitle: checkTag + s.checkName},
	}
	manifest.SchemaVersion = 2
	data, _ := json.Marshal(manifest) // encoding strings and numbers cannot fail
	return data
}

func (s checkStage) isAllowed(p probe, status int, body []byte) bool {
	success := status >= 200 && status < 400
	switch p.rule {
	case mustNotMount:
		return status == http.StatusCreated
	case mustNotWrite:
		refused := slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
			http.StatusMethodNotAllowed}, status)
		return !refused || bytes.Contains(body, []byte("BLOB_UNKNOWN"))
	case mustNotList:
		return success && s.namesAnother(body)
	}
	return success
}

func (s checkStage) namesAnother(catalog []byte) bool {
	var listed struct {
		Repositories []string `json:"repositories"`
	}
	if json.Unmarshal(catalog, &listed) != nil {
		return true // a response in a different format is not a refusal
	}
	return slices.ContainsFunc(listed.Repositories, func(name string) bool {
		below, ours := strings.CutPrefix(name, s.prefix+"/")
		private := below == bundle.DocumentsRepository || strings.HasPrefix(below, bundle.DesiredRepository("")) ||
			strings.HasPrefix(below, bundle.ReportRepository(""))
		return ours && private && below != bundle.DesiredRepository(s.ownRepository) &&
			below != bundle.ReportRepository(s.ownRepository)
	})
}

// isUndecided reports whether the registry is unavailable or limits the request rate.
func isUndecided(status int) bool { return status >= 500 || status == http.StatusTooManyRequests }
