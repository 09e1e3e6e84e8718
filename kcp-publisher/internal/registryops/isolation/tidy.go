package isolation

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// cleaner deletes a check's objects, if the two runtimes' permissions allow it.
type cleaner struct {
	options Options
	stage   checkStage
	traces  []writtenObject
}

type writtenObject struct {
	// description is the message about an object that cannot be deleted. The field path is the object's URL path.
	description, path string
	runtime           Runtime
	// expires is true for an object that registries remove automatically.
	expires bool
}

func newTidier(o Options, s checkStage) *cleaner {
	t := &cleaner{options: o, stage: s}
	t.blob(o.Own, s.ownRepository, s.ownSecret)
	t.blob(o.Other, s.other, s.secret)
	return t
}

func (t *cleaner) blob(who Runtime, reportsOf string, d digest.Digest) {
	repository := t.stage.prefix + "/" + bundle.ReportRepository(reportsOf)
	t.add(writtenObject{
		description: fmt.Sprintf("blob %s in %s", d, repository), path: "/v2/" + repository + "/blobs/" + d.String(),
		runtime: who,
	})
}

func (t *cleaner) add(found writtenObject) {
	if !slices.ContainsFunc(t.traces, func(known writtenObject) bool { return known.path == found.path }) {
		t.traces = append(t.traces, found)
	}
}

func (t *cleaner) record(p probe, got probeReply) {
	at, err := url.Parse(p.path)
	if err != nil || p.rule != mustNotWrite && p.rule != mustNotMount {
		return
	}
	repository := strings.TrimPrefix(at.Path, "/v2/")
	switch {
	case p.method == http.MethodPut && got.status == http.StatusCreated:
		repository, tag, _ := strings.Cut(repository, "/manifests/")
		t.add(writtenObject{
			description: fmt.Sprintf("tag %s in %s", tag, repository), path: "/v2/" + repository + "/manifests/" +
				digest.FromBytes(p.body).String(), runtime: t.options.Own,
		})
	case p.method == http.MethodPost && got.status == http.StatusAccepted:
		// The registry chooses the upload URL, so use it only if its path is below the prefix.
		if upload, err := url.Parse(got.location); err == nil &&
			strings.HasPrefix(upload.Path, "/v2/"+t.stage.prefix+"/") {
			repository, _, _ := strings.Cut(repository, "/blobs/")
			t.add(writtenObject{
				description: "an unfinished upload in " + repository, path: upload.RequestURI(), runtime: t.options.Own,
				expires: true,
			})
		}
	case p.method == http.MethodPost && got.status == http.StatusCreated:
		if d := digest.Digest(at.Query().Get("mount")); d.Validate() == nil {
			t.blob(t.options.Own, t.stage.ownRepository, d)
		}
	}
}

// deleteAll deletes the check's objects, and returns the ones that could not be deleted.
func (t *cleaner) deleteAll(ctx context.Context) []string {
	for _, d := range t.stage.leftOver {
		t.blob(t.options.Own, t.stage.ownRepository, d)
	}
	var left []string
	for _, found := range t.traces {
		got, err := send(ctx, found.runtime.Registries, t.options.Location, probe{
			method: http.MethodDelete, path: found.path,
		})
		gone := err == nil && (got.status >= 200 && got.status < 300 || got.status == http.StatusNotFound)
		if !gone && !found.expires {
			left = append(left, found.description)
		}
	}
	return left
}
