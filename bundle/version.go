package bundle

import "github.com/Masterminds/semver/v3"

// Older reports whether version a is older than b by semantic versioning; what is no such version is older than
// nothing.
func Older(a, b string) bool {
	va, errA := semver.NewVersion(a)
	vb, errB := semver.NewVersion(b)
	return errA == nil && errB == nil && va.LessThan(vb)
}
