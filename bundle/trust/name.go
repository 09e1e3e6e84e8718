package trust

import (
	"fmt"
	"regexp"
)

var runtimeID = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)

// CheckRuntimeID returns an error for an invalid runtime ID.
func CheckRuntimeID(id string) error {
	if !runtimeID.MatchString(id) || doubledSeparator.MatchString(id) {
		return fmt.Errorf(
			"runtime ID %q: must be 1 to 63 characters of a-z and 0-9, with single '.', '_' or '-' between them", id)
	}
	return nil
}

// The OCI distribution specification ("Pulling manifests") forbids most repeated separators in repository names.
var doubledSeparator = regexp.MustCompile(`[._-]{2,}`)
