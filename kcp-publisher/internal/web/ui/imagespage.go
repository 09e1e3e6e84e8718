package ui

import (
	"cmp"
	"context"
	"fmt"
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
	// maxContentsBytes limits the memory for cached images, and maxContentBytes the memory for one module version. A
	// module's author chooses the number and length of its images.
	maxContentsBytes = 32 << 20
	maxContentBytes  = 64 << 10
	// contentsWithin is the timeout for reading the bundles. A version is read again after contentsAgain at the
	// earliest.
	contentsWithin = 10 * time.Minute
	contentsAgain  = 5 * time.Minute
	// maxReadFor limits the Kubernetes versions in a cachedContent. A runtime can report any version.
	maxReadFor = 32
)

// imageCache caches module versions' images. A version never changes, so only failures expire. A rendered version's
// images can depend on the Kubernetes version, so a new Kubernetes version causes another read.
type imageCache struct {
	// mu guards the fields below.
	mu      sync.Mutex
	known   map[inventory.Module]cachedContent
	bytes   int
	reading bool
}

// cachedContent is the result of a read that ended at the time readAt. readFor contains at most maxReadFor Kubernetes
// versions of the runtimes that had the module version.
type cachedContent struct {
	inventory.Content
	readAt  time.Time
	readFor []string
}

func contentBytes(m inventory.Module, content cachedContent) int {
	return memo.MemoryOf(m) + memo.MemoryOf(content) + memo.EntryBytes
}

// cachedImages returns module versions' cached images, and the number of missing versions. It calls read in the
// background for the missing versions, with all runtimes that have them.
func (c *imageCache) cachedImages(
	runtimes []inventory.Runtime, now time.Time, read func([]inventory.Runtime),
) (known map[inventory.Module]inventory.Content, reading int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evict(runtimes)
	pending := map[inventory.Module]bool{}
	for i := range runtimes {
		for _, m := range runtimes[i].Modules {
			if !c.isRead(m, runtimes[i].Kubernetes, now) {
				pending[m] = true
			}
		}
	}
	if len(pending) > 0 && !c.reading {
		c.reading = true
		go read(selectModules(runtimes, pending))
	}
	known = make(map[inventory.Module]inventory.Content, len(c.known))
	for m, content := range c.known {
		known[m] = content.Content
	}
	return known, len(pending)
}

// isRead reports whether the cache contains a module version's images for a Kubernetes version. For the time
// contentsAgain after a read, it always returns true, because a runtime can report a new Kubernetes version at any
// time.
func (c *imageCache) isRead(m inventory.Module, kubernetes string, now time.Time) bool {
	content, known := c.known[m]
	return known && (now.Sub(content.readAt) < contentsAgain ||
		content.Problem == "" && slices.Contains(content.readFor, kubernetes))
}

// selectModules returns the runtimes that have at least one of the modules, each with only these modules.
func selectModules(runtimes []inventory.Runtime, modules map[inventory.Module]bool) (selected []inventory.Runtime) {
	for _, r := range runtimes {
		r.Modules = slices.DeleteFunc(slices.Clone(r.Modules), func(m inventory.Module) bool { return !modules[m] })
		if len(r.Modules) > 0 {
			selected = append(selected, r)
		}
	}
	return selected
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
		c.drop(func(m inventory.Module) bool { return c.known[m].Problem != "" })
	}
	if c.isFull() {
		c.known, c.bytes = nil, 0
	}
}

func (c *imageCache) drop(unwanted func(inventory.Module) bool) {
	for m, content := range c.known {
		if unwanted(m) {
			c.bytes -= contentBytes(m, content)
			delete(c.known, m)
		}
	}
}

func (c *imageCache) isFull() bool { return len(c.known) > maxContents || c.bytes > maxContentsBytes }

// put caches a read's result for the modules in the requested runtimes. found contains the images that could be read.
// problem is the reason why the other images could not be read.
func (c *imageCache) put(
	requested []inventory.Runtime, found map[inventory.Module]inventory.Content, problem string, now time.Time,
) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading = false
	if c.known == nil {
		c.known = map[inventory.Module]cachedContent{}
	}
	readFor := map[inventory.Module][]string{}
	for _, r := range requested {
		for _, m := range r.Modules {
			if versions := readFor[m]; len(versions) < maxReadFor && !slices.Contains(versions, r.Kubernetes) {
				readFor[m] = append(versions, r.Kubernetes)
			}
		}
	}
	for m, versions := range readFor {
		content, is := found[m]
		if !is {
			content.Problem = cmp.Or(problem, inventory.NoBundle)
		}
		next := cachedContent{content, now, versions}
		if size := contentBytes(m, next); size > maxContentBytes {
			next.Content = inventory.Content{Problem: fmt.Sprintf("its images need %d bytes, at most %d are shown", size,
				maxContentBytes)}
		}
		if old, is := c.known[m]; is {
			c.bytes -= contentBytes(m, old)
		}
		c.known[m] = next
		c.bytes += contentBytes(m, next)
	}
}

type imagesPage struct {
	inventory.Fleet
	// Readable is false if no registry is configured. Rendered is true if the images include images in rendered
	// objects.
	Readable      bool
	Rendered      bool
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
	page := imagesPage{Readable: p.Contents != nil, Rendered: p.RendersContents}
	page.Image = cleanLine(500, strings.TrimSpace(r.URL.Query().Get("image")))
	page.Module = cleanLine(200, strings.TrimSpace(r.URL.Query().Get("module")))
	if page.Readable {
		kymas, err := p.Source.kymas(r.Context())
		if err != nil {
			p.showMessage(w, r, http.StatusServiceUnavailable, "Cannot read the Kymas", err.Error())
			return
		}
		runtimes := inventory.ReportedRuntimes(kymas)
		if !page.Rendered {
			for i := range runtimes {
				runtimes[i].Kubernetes = "" // the result does not depend on the Kubernetes version
			}
		}
		known, pending := p.contents.cachedImages(runtimes, p.Now(), func(asked []inventory.Runtime) {
			p.readContents(r.Context(), asked)
		})
		if page.Pending = pending; pending > 0 {
			w.Header().Set("Refresh", "3")
		}
		page.Fleet = inventory.New(runtimes, known).Select(page.Image, page.Module)
		page.Unknown = slices.DeleteFunc(page.Unknown, func(u inventory.Unknown) bool {
			_, read := known[u.Module]
			return pending > 0 && !read // the version's bundle may still be found
		})
		page.Rows = imageRows(page.Images)
		page.More = max(0, len(page.Rows)-maxImages)
		page.Rows = page.Rows[:len(page.Rows)-page.More]
	}
	p.render(w, r, "images", http.StatusOK, frame{Title: "Images", Section: "images", Body: page})
}

// readContents reads module versions' images into the cache. It uses the UI's own permissions for the registry, and
// continues after the request has ended.
func (p *pages) readContents(ctx context.Context, asked []inventory.Runtime) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), contentsWithin)
	defer cancel()
	found, err := p.Contents(ctx, asked)
	problem := ""
	if err != nil {
		problem = err.Error()
		p.Log.Error(err, "failed to read the modules' images")
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
