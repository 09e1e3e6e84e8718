package registry

import (
	"net/http"
	"slices"
	"strings"
)

// Class is the type of resource in a request.
type Class string

// Classes of requests. The end of a request's path determines its class.
const (
	Manifests Class = "manifests"
	Blobs     Class = "blobs"
	Uploads   Class = "uploads" // includes blob mounts
	Tags      Class = "tags"
	Other     Class = "other" // the root of the API, the catalog and referrers
)

// Request is a key for requests with the same method and class.
type Request struct {
	Method string
	Class  Class
}

// Traffic counts requests by method and class.
type Traffic map[Request]int

// Total counts the requests with the given methods. Without arguments, it counts all requests.
func (t Traffic) Total(methods ...string) int {
	total := 0
	for request, n := range t {
		if len(methods) == 0 || slices.Contains(methods, request.Method) {
			total += n
		}
	}
	return total
}

// Writes returns the number of requests that could change data.
func (t Traffic) Writes() int { return t.Total() - t.Total(http.MethodGet, http.MethodHead) }

func (t Traffic) count(request *http.Request) {
	t[Request{Method: request.Method, Class: classify(request.URL.Path)}]++
}

// classify returns the class of a path. It parses from the end, because the name of a repository can contain the name
// of a class.
func classify(path string) Class {
	parts := strings.Split(strings.TrimSuffix(path, "/"), "/")
	last := func(n int) string {
		if len(parts) < n {
			return ""
		}
		return parts[len(parts)-n]
	}
	switch {
	case last(2) == "tags" && last(1) == "list":
		return Tags
	case last(2) == "blobs" && last(1) == "uploads", last(3) == "blobs" && last(2) == "uploads":
		return Uploads
	case last(2) == "manifests":
		return Manifests
	case last(2) == "blobs":
		return Blobs
	}
	return Other
}
