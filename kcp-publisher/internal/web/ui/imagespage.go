package ui

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/inventory"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
)

const (
	maxImages   = 300
	maxContents = 5_000
	// maxContentsBytes limits the memory of the cached images, and maxContentBytes that of one module version. The author
	// of a module chooses the number and length of its images.
	maxContentsBytes = 32 << 20
	maxContentBytes  = 64 << 10
	// contentsWithin is the timeout for reading the bundles. A failed read is repeated after contentsAgain.
	contentsWithin = 10 * time.Minute
	contentsAgain  = 5 * time.Minute
)

// imageCache caches the images of module versions. A version never changes, so only failures expire.
type imageCache struct {
	// mu guards the fields below.
	mu      sync.Mutex
	known   map[inventory.Module]inventory.Content
	failed  map[inventory.Module]time.Time
	bytes   int
	reading bool
}

func contentBytes(m inventory.Module, content inventory.Content) int {
	return memo.MemoryOf(m) + memo.MemoryOf(content) + memo.EntryBytes
}

// cachedImages returns the cached images of module versions, and the number of missing versions. It calls read in the
// background for the missing versions.
func (c *imageCache) cachedImages(
	runtimes []inventory.Runtime, now time.Time, read func([]inventory.Runtime),
) (known map[inventory.Module]inventory.Content, reading int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evict(runtimes)
	pending := map[inventory.Module]bool{}
	var asked []inventory.Runtime
	for _, r := range runtimes {
		r.Modules = slices.DeleteFunc(slices.Clone(r.Modules), func(m inventory.Module) bool {
			_, known := c.known[m]
			return known && (c.failed[m].IsZero() || now.Sub(c.failed[m]) < contentsAgain)
		})
		for _, m := range r.Modules {
			pending[m] = true
		}
		if len(r.Modules) > 0 {
			asked = append(asked, r)
		}
	}
	if len(asked) > 0 && !c.reading {
		c.reading = true
		go read(asked)
	}
	return maps.Clone(c.known), len(pending)
}

// evict removes entries from a full cache: first versions that no runtime reports, then versions without images, which
// include invented versions. Runtimes that report many versions must not displace other runtimes' versions.
func (c *imageCache) evict(runtimes []inventory.Runtime) {
	if !c.isFull() {
		return
	}
	used := map[inventory.Module]bool{}
	for _, r := range runtimes {
		for _, m := range r.Modules {
			used[m] = true
		}
	}
	c.drop(func(m inventory.Module) bool { return !used[m] })
	if c.isFull() {
		c.drop(func(m inventory.Module) bool { return !c.failed[m].IsZero() })
	}
	if c.isFull() {
		c.known, c.failed, c.bytes = nil, nil, 0
	}
}

func (c *imageCache) drop(unwanted func(inventory.Module) bool) {
	for m, content := range c.known {
		if unwanted(m) {
			c.bytes -= contentBytes(m, content)
			delete(c.known, m)
			delete(c.failed, m)
		}
	}
}

func (c *imageCache) isFull() bool { return len(c.known) > maxContents || c.bytes > maxContentsBytes }

// put caches the result of a read for the modules of the requested runtimes. found contains the images that could be
// read. problem is the reason why the other modules' images could not be read.
func (c *imageCache) put(
	requested []inventory.Runtime, found map[inventory.Module]inventory.Content, problem string, now time.Time,
) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading = false
	if c.known == nil {
		c.known, c.failed = map[inventory.Module]inventory.Content{}, map[inventory.Module]time.Time{}
	}
	for _, r := range requested {
		for _, m := range r.Modules {
			content, is := found[m]
			if !is {
				content.Problem = cmp.Or(problem, inventory.NoBundle)
			}
			if size := contentBytes(m, content); size > maxContentBytes {
				content = inventory.Content{Problem: fmt.Sprintf("its images need %d bytes, at most %d are shown", size,
					maxContentBytes)}
			}
			if old, is := c.known[m]; is {
				c.bytes -= contentBytes(m, old)
			}
			c.bytes += contentBytes(m, content)
			delete(c.failed, m)
			if c.known[m] = content; content.Problem != "" {
				c.failed[m] = now
			}
		}
	}
}

type imagesPage struct {
	inventory.Fleet
	// Readable is false if no registry is configured.
	Readable      bool
	Image, Module string
	// Pending is the number of versions whose bundles are being read.
	Pending int
	Rows    []imageRow
	More    int
}

// imageRow is a module version that uses an image.
type imageRow struct {
	Image    string
	Module   inventory.Module
	Runtimes int
	// Oldest is the oldest time among the runtimes' last reports.
	Oldest  time.Time
	Address string
}

func (p *pages) images(w http.ResponseWriter, r pageRequest) {
	page := imagesPage{Readable: p.Contents != nil}
	page.Image = cleanLine(500, strings.TrimSpace(r.URL.Query().Get("image")))
	page.Module = cleanLine(200, strings.TrimSpace(r.URL.Query().Get("module")))
	if page.Readable {
		kymas, err := p.Source.kymas(r.Context())
		if err != nil {
			p.showMessage(w, r, http.StatusServiceUnavailable, "Cannot read the Kymas", err.Error())
			return
		}
		runtimes := inventory.ReportedRuntimes(kymas)
		known, pending := p.contents.cachedImages(runtimes, p.Now(), func(asked []inventory.Runtime) {
			p.readContents(r.Context(), asked)
		})
		if page.Pending = pending; pending > 0 {
			w.Header().Set("Refresh", "3")
		}
		page.Fleet = inventory.New(runtimes, known).Select(page.Image, page.Module)
		page.Unknown = slices.DeleteFunc(page.Unknown, func(u inventory.Unknown) bool {
			_, read := known[u.Module]
			return pending > 0 && !read // its bundle may still be found
		})
		page.Rows = imageRows(page.Images)
		page.More = max(0, len(page.Rows)-maxImages)
		page.Rows = page.Rows[:len(page.Rows)-page.More]
	}
	p.render(w, r, "images", http.StatusOK, frame{Title: "Images", Section: "images", Body: page})
}

// readContents reads the images of module versions into the cache. It uses the UI's own permissions for the registry,
// and continues after the request has ended.
func (p *pages) readContents(ctx context.Context, asked []inventory.Runtime) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), contentsWithin)
	defer cancel()
	found, err := p.Contents(ctx, asked)
	problem := ""
	if err != nil {
		problem = err.Error()
		p.Log.Error(err, "failed to read the images of modules")
	}
	p.contents.put(asked, found, problem, p.Now())
}

func imageRows(images []inventory.Image) []imageRow {
	var rows []imageRow
	for _, i := range images {
		for _, u := range i.Uses {
			one := inventory.Image{Uses: []inventory.Use{u}}
			rows = append(rows, imageRow{
				Image: i.Reference, Module: u.Module, Runtimes: len(u.Runtimes), Oldest: one.Oldest(),
				Address: query{Module: u.Name, Version: valueName(u.Version)}.address(),
			})
		}
	}
	return rows
}
