package ui

import (
	"net/http"
)

type pageRequest struct {
	*http.Request
	viewer *Viewer
	fleet  *snapshot
	next   <-chan struct{}
	// progress counts the Kymas that have been read. It is nil once all Kymas have been read.
	progress *reading
}
