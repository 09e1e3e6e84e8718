package bundle

import "github.com/Masterminds/semver/v3"

// IsOlder reports whether semantic version a is older than b. It returns false if one of them is not a semantic
// version.
func IsOlder(a, b string) bool {
	va, errA := semver.NewVersion(a)
	vb, errB := semver.NewVersion(b)
	return errA == nil && errB == nil && va.LessThan(vb)
}
