package cli

import (
	"cmp"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"syscall"

	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// hint returns advice for common errors, or "" for other errors.
func hint(err error) string {
	if errors.Is(err, syscall.ENOSPC) && !aboutFile(err) {
		// Both a full disk and the inotify limit cause ENOSPC, but only the error for a full disk contains a path.
		return "programs on this machine watch too many files: raise the limit with `sysctl " +
			"fs.inotify.max_user_watches`, or stop some of these programs"
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return diskFull(err)
	}
	if errors.Is(err, store.ErrNotFound) {
		return "the location does not contain this data: check the registry prefix or folder, and the name of the runtime " +
			"or component"
	}
	status, answered := store.StatusOf(err)
	if !answered {
		return clusterHint(err)
	}
	host := cmp.Or(store.HostOf(err), "the registry")
	switch status {
	case http.StatusUnauthorized:
		return host +
			" requires valid credentials: set --registry-config to a docker config.json with a user and password for " +
			"this registry (`docker login` writes this file)"
	case http.StatusForbidden:
		return host +
			" denied the request: grant the user this permission, or set --registry-config to a docker config.json " +
			"of another user"
	}
	return ""
}

// aboutFile reports whether an error comes from a file operation.
func aboutFile(err error) bool {
	return errors.As(err, new(*fs.PathError)) || errors.As(err, new(*os.LinkError)) ||
		errors.As(err, new(*os.SyscallError))
}

func diskFull(err error) string {
	where := "the disk"
	var at *fs.PathError
	if errors.As(err, &at) {
		where = "the disk of " + filepath.Dir(at.Path)
	}
	return "free space on " + where +
		" or raise its quota, and run the same command again; set TMPDIR to write temporary files elsewhere"
}
