// Package isolation finds out whether a running registry keeps one runtime from what is another's. The credentials of
// two runtimes go in; each way that is known to have leaked somewhere comes out with what the registry answered. It
// overwrites nothing: what it writes is new each time, and where a write succeeds that must not, it is under a tag that
// nobody reads. Afterwards it deletes what it wrote, as far as the two runtimes may, and tells what it had to leave.
//
// Source: OCI distribution-spec 1.1; zot CVE-2024-39897 (blobs of others by digest, through deduplication); distribution
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

// rule says which answers show that a request was allowed.
type rule int

const (
	// mayNotRead is broken by any success.
	mayNotRead rule = iota
	// mayNotMount is broken by 201; 202 only starts an upload of bytes that the client must have itself.
	mayNotMount
	// mayNotWrite is broken by success, and by an error that only who may write gets to see.
	mayNotWrite
	// mayNotList is broken by an answer that names what is another's.
	mayNotList
)

// probe is one thing that a runtime must not be able to do.
type probe struct {
	what      string
	anonymous bool
	method    string
	// path starts behind the host, and may be in need of no cleaning.
	path string
	body []byte
	rule rule
	// inTheWay is true when an earlier check left what makes this one's answer say nothing.
	inTheWay bool
}

// checkTag is how tags begin that a write lands under that must not succeed.
const checkTag = "kyma-pull-isolation-check-"

// stage is what the probes are about: the path of the fleet without host, two runtimes, and what only the second has.
type stage struct {
	prefix   string
	own      string
	other    string
	manifest digest.Digest   // of the other's bundle
	blobs    []digest.Digest // of the other's bundle, those that the own bundle has not
	// secret is a fresh blob in the other's report repository, ownSecret one in the own.
	secret, ownSecret digest.Digest
	made              string          // names this check
	leftOver          []digest.Digest // of blobs, those that lay in the own report repository before anything was tried
}

// probes lists them; mounts come late, each followed by a look at whether the blob has arrived.
func (s stage) probes() []probe {
	var all []probe
	add := func(rule rule, method, path, what string) {
		all = append(all, probe{what: what, method: method, path: path, rule: rule, body: s.body(method)})
	}
	repository := func(name string) string { return "/v2/" + s.prefix + "/" + name }
	ownBundle, ownReport := repository(bundle.DesiredRepository(s.own)), repository(bundle.ReportRepository(s.own))
	bundleOf, reportOf := repository(bundle.DesiredRepository(s.other)), repository(bundle.ReportRepository(s.other))
	documents, content := repository(bundle.DocumentsRepository), repository(bundle.ContentRepository)

	add(mayNotRead, http.MethodGet, bundleOf+"/manifests/"+bundle.TagDesired, "read another's bundle")
	add(mayNotRead, http.MethodHead, bundleOf+"/manifests/"+s.manifest.String(), "ask for another's bundle by digest")
	add(mayNotRead, http.MethodGet, ownBundle+"/manifests/"+s.manifest.String(), "read another's bundle from the own repository")
	add(mayNotRead, http.MethodGet, reportOf+"/manifests/"+bundle.TagLatest, "read another's report")
	for _, spelling := range []struct{ path, what string }{
		{ownBundle + "/../" + s.other, "through a part above"}, {ownBundle + "/%2e%2e/" + s.other, "through an escaped part above"},
		{"/v2//" + strings.TrimPrefix(bundleOf, "/v2/"), "with doubled slashes"}, {strings.Replace(bundleOf, "/runtimes/", "/runtimes%2f", 1), "with an escaped slash"},
		{strings.ToUpper(bundleOf[:4]) + bundleOf[4:], "below another spelling of the API"},
	} {
		add(mayNotRead, http.MethodGet, spelling.path+"/manifests/"+bundle.TagDesired, "read another's bundle "+spelling.what)
	}
	hidden := append([]digest.Digest{s.secret}, s.blobs...)
	for _, d := range hidden {
		holder := bundleOf
		if d == s.secret {
			holder = reportOf
		}
		add(mayNotRead, http.MethodGet, holder+"/blobs/"+d.String(), "read another's blob")
		for _, from := range []string{ownBundle, ownReport, content} {
			add(mayNotRead, http.MethodHead, from+"/blobs/"+d.String(), "find another's blob by its digest")
		}
	}
	for _, listed := range []string{bundleOf, reportOf, documents} {
		add(mayNotRead, http.MethodGet, listed+"/tags/list", "list tags that are not its own")
	}
	for _, last := range []string{s.prefix + "/" + bundle.ReportRepository(""), s.prefix + "/" + bundle.DesiredRepository("")} {
		add(mayNotList, http.MethodGet, "/v2/_catalog?"+url.Values{"n": {"100"}, "last": {last}}.Encode(), "see other repositories in the catalog")
	}
	for _, target := range []string{reportOf, bundleOf, ownBundle, documents, content, repository("trust")} {
		what := "write where it may not"
		switch target {
		case reportOf:
			what = "write another's report"
		case ownBundle:
			what = "write its own desired state"
		}
		add(mayNotWrite, http.MethodPost, target+"/blobs/uploads/", what)
		add(mayNotWrite, http.MethodPut, target+"/manifests/"+checkTag+s.made, what)
	}
	for _, anonymous := range []struct{ path, what string }{
		{bundleOf + "/manifests/" + bundle.TagDesired, "read a bundle without a password"},
		{reportOf + "/blobs/" + s.secret.String(), "read a blob without a password"},
	} {
		add(mayNotRead, http.MethodGet, anonymous.path, anonymous.what)
		all[len(all)-1].anonymous = true
	}
	for _, d := range hidden {
		for _, from := range []string{bundle.ReportRepository(s.other), bundle.DesiredRepository(s.other), bundle.DocumentsRepository, ""} {
			query := url.Values{"mount": {d.String()}}
			if from != "" {
				query.Set("from", s.prefix+"/"+from)
			}
			add(mayNotMount, http.MethodPost, ownReport+"/blobs/uploads/?"+query.Encode(), "mount another's blob")
			add(mayNotRead, http.MethodGet, ownReport+"/blobs/"+d.String(), "read another's blob after trying to mount it")
		}
	}
	add(mayNotWrite, http.MethodDelete, reportOf+"/blobs/"+s.secret.String(), "delete another's blob") // last: others ask for it
	for i := range all {
		all[i].inTheWay = strings.HasPrefix(all[i].path, ownReport+"/") && slices.ContainsFunc(s.leftOver, func(d digest.Digest) bool {
			return strings.Contains(all[i].path, d.String()) || strings.Contains(all[i].path, url.QueryEscape(d.String()))
		})
	}
	return all
}

// body is a manifest for writing tests, whose only blob is the empty one.
func (s stage) body(method string) []byte {
	if method != http.MethodPut {
		return nil
	}
	empty := bundle.EmptyBlob().Descriptor
	manifest := ocispec.Manifest{
		MediaType: ocispec.MediaTypeImageManifest, ArtifactType: bundle.ArtifactTypeReport, Config: empty, Layers: []ocispec.Descriptor{empty},
		// Nobody else's manifest has the same digest, so that it can be deleted by it.
		Annotations: map[string]string{ocispec.AnnotationTitle: checkTag + s.made},
	}
	manifest.SchemaVersion = 2
	data, _ := json.Marshal(manifest) // of strings and numbers
	return data
}

// allowed reports whether the answer shows that the registry let the probe through.
func (s stage) allowed(p probe, status int, body []byte) bool {
	success := status >= 200 && status < 400
	switch p.rule {
	case mayNotMount:
		return status == http.StatusCreated
	case mayNotWrite:
		refused := slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed}, status)
		return !refused || bytes.Contains(body, []byte("BLOB_UNKNOWN"))
	case mayNotList:
		return success && s.namesAnother(body)
	}
	return success
}

func (s stage) namesAnother(catalog []byte) bool {
	var listed struct {
		Repositories []string `json:"repositories"`
	}
	if json.Unmarshal(catalog, &listed) != nil {
		return true // whatever it is, it is no refusal
	}
	return slices.ContainsFunc(listed.Repositories, func(name string) bool {
		below, ours := strings.CutPrefix(name, s.prefix+"/")
		private := below == bundle.DocumentsRepository || strings.HasPrefix(below, bundle.DesiredRepository("")) || strings.HasPrefix(below, bundle.ReportRepository(""))
		return ours && private && below != bundle.DesiredRepository(s.own) && below != bundle.ReportRepository(s.own)
	})
}

// undecided are answers that say nothing about rights: the registry is in trouble, or has had enough.
func undecided(status int) bool { return status >= 500 || status == http.StatusTooManyRequests }
