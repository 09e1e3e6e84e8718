package bundle

import (
	"strings"

	"github.com/Masterminds/semver/v3"
)

// IsOlder reports whether semantic version a is older than b. It returns false if one of them is not a semantic
// version.
func IsOlder(a, b string) bool {
	va, errA := semver.NewVersion(a)
	vb, errB := semver.NewVersion(b)
	return errA == nil && errB == nil && va.LessThan(vb)
}

// ReleaseVersion returns the version if it is the version of a release, such as 1.2.0 or v1.2.0. Otherwise, it returns
// "", for example for a Git commit that contains only digits.
func ReleaseVersion(version string) string {
	if _, err := semver.StrictNewVersion(strings.TrimPrefix(version, "v")); err != nil {
		return ""
	}
	return version
}
