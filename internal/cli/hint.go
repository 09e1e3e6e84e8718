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

// hint returns advice for unclear errors of registries, API servers and disks, and an empty string for other errors.
func hint(err error) string {
	if errors.Is(err, syscall.ENOSPC) && !aboutFile(err) {
		// Go's functions include the file in the error of a full disk. File watchers return the bare system error.
		return "too many files are watched on this machine: raise the limit with `sysctl " +
			"fs.inotify.max_user_watches`, or stop the programs that watch them"
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return diskFull(err)
	}
	status, answered := store.Answered(err)
	if !answered {
		return clusterHint(err)
	}
	host := cmp.Or(store.AnsweredBy(err), "the registry")
	switch status {
	case http.StatusUnauthorized:
		return host +
			" accepts no request without a user and password, or not with these: name a docker config.json that has " +
			"them with --registry-config (`docker login` writes one)"
	case http.StatusForbidden:
		return host +
			" does not let this user do that: give the user the right, or name a docker config.json of another user " +
			"with --registry-config"
	}
	return ""
}

// aboutFile reports whether an error names a file or a system call.
func aboutFile(err error) bool {
	return errors.As(err, new(*fs.PathError)) || errors.As(err, new(*os.LinkError)) ||
		errors.As(err, new(*os.SyscallError))
}

// diskFull returns advice for a full disk. Commands write atomically, so each can be repeated.
func diskFull(err error) string {
	where := "the disk"
	var at *fs.PathError
	if errors.As(err, &at) {
		where = "the disk of " + filepath.Dir(at.Path)
	}
	return "free space on " + where +
		", or its quota, and run the same command again; temporary files can go elsewhere with TMPDIR"
}
