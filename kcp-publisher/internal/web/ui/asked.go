package ui

import (
	"net/http"
)

// pageRequest is a request with its viewer and the current fleet.
type pageRequest struct {
	*http.Request
	viewer *Viewer
	fleet  *snapshot
	next   <-chan struct{}
	// progress is the progress while the Kymas are being read, or nil afterwards.
	progress *reading
}
