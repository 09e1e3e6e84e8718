package ui

import (
	"net/http"
)

// asked is a request with its viewer and the current fleet.
type asked struct {
	*http.Request
	viewer *Viewer
	fleet  *snapshot
	next   <-chan struct{}
	// reading is the progress while the Kymas are being read, or nil afterwards.
	reading *reading
}
