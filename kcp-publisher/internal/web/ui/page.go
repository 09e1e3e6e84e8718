package ui

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"net/http"
	"strings"
	"sync"
	"time"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed assets/*
var assetFiles embed.FS

// version is a hash of the assets. Asset URLs contain it, so that browsers can cache each version permanently.
var version = hashFiles(assetFiles)

// templates parses the pages on first use. Parsing takes 10 ms, and most commands never render a page.
var templates = sync.OnceValue(func() map[string]*template.Template {
	shared := template.Must(template.New("").Funcs(texts).ParseFS(templateFiles, "templates/frame.html",
		"templates/parts.html", "templates/details.html"))
	parsed := map[string]*template.Template{}
	for _, name := range []string{
		"overview", "runtime", "rollouts", "rollout", "modules", "images", "message", "confirm", "acted",
	} {
		page := template.Must(shared.Clone())
		parsed[name] = template.Must(page.ParseFS(templateFiles, "templates/"+name+".html"))
	}
	return parsed
})

func hashFiles(files embed.FS) string {
	sum := sha256.New()
	_ = fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, _ error) error {
		if !entry.IsDir() {
			content, _ := files.ReadFile(path)
			sum.Write(content)
		}
		return nil
	})
	return hex.EncodeToString(sum.Sum(nil))[:12]
}

// assets serves the style sheet, the script and the icon, and passes other requests to next.
func assets(next http.Handler) http.Handler {
	files := http.FileServerFS(assetFiles)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead || !strings.HasPrefix(r.URL.Path, "/assets/") ||
			strings.HasSuffix(r.URL.Path, "/") {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Cache-Control", "public, max-age=3600")
		if r.URL.Query().Get("v") == version {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		files.ServeHTTP(w, r)
	})
}

type frame struct {
	Title     string
	Section   string
	Namespace string
	Version   string
	Viewer    *Viewer
	Now       time.Time
	// Live is true if the page updates itself after changes to the fleet.
	Live bool
	Body any
}

// render writes a page, or 304 if the browser has the current version.
func (p *pages) render(w http.ResponseWriter, r pageRequest, name string, status int, f frame) {
	f.Namespace, f.Version, f.Viewer, f.Now = p.Source.namespace, version, r.viewer, p.Now()
	var page bytes.Buffer
	if err := templates()[name].ExecuteTemplate(&page, "frame", f); err != nil {
		p.Log.Error(err, "failed to render a page", "page", name)
		http.Error(w, "failed to render the page; see the log for the cause", http.StatusInternalServerError)
		return
	}
	sum := sha256.Sum256(page.Bytes())
	tag := `"` + hex.EncodeToString(sum[:8]) + `"`
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("ETag", tag)
	if status == http.StatusOK && r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes())
}

type message struct{ Heading, Text string }

func (p *pages) showMessage(w http.ResponseWriter, r pageRequest, status int, heading, text string) {
	p.render(w, r, "message", status, frame{Title: heading, Body: message{heading, text}})
}
