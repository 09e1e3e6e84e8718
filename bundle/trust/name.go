package trust

import (
	"fmt"
	"regexp"
)

var runtimeID = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)

// CheckRuntimeID reports whether id can name a runtime: it becomes a path of an OCI repository and a label value.
func CheckRuntimeID(id string) error {
	if !runtimeID.MatchString(id) || doubledSeparator.MatchString(id) {
		return fmt.Errorf("runtime id %q: use 1 to 63 of a-z, 0-9 and single '.', '_' or '-' between them", id)
	}
	return nil
}

// OCI repository names do not take every run of separators (distribution-spec, "Pulling manifests").
var doubledSeparator = regexp.MustCompile(`[._-]{2,}`)
