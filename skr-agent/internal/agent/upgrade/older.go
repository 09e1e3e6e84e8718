package upgrade

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// maxFormer limits the remembered images that were replaced.
const maxFormer = 20

// Wanted is the image of the bundle in force.
type Wanted struct {
	// Image is the image by digest, "" for none.
	Image string
	// Release is the release of the deciding agent.
	Release string
	// GoesBack reports whether the bundle's statement names the return from one image to another.
	GoesBack func(from, to string) bool
}

// older returns why the agent does not follow the bundle to an image that is older than the set one, "" if it does. A
// rewound commit or a replayed setting must not return the agent to a release with known faults.
func (k Known) older(w Wanted) string {
	if w.Image == "" || bundle.ImageDigest(w.Image) == bundle.ImageDigest(k.Set) || w.GoesBack(k.Set, w.Image) {
		return ""
	}
	because := ""
	switch release := bundle.ImageRelease(w.Image); {
	case bundle.Older(release, w.Release):
		because = fmt.Sprintf("release %s is older than the running release %s", release, w.Release)
	case slices.Contains(k.former(), bundle.ImageDigest(w.Image)):
		because = "it was replaced by a later one"
	default:
		return ""
	}
	return fmt.Sprintf(
		"the agent keeps its image %s and does not return to %s: %s, and the bundle does not name this rollback: "+
			"allow it with --agent-rollback-from %s",
		k.Set,
		w.Image,
		because,
		bundle.ImageDigest(k.Set),
	)
}

func (k Known) former() []string {
	return strings.FieldsFunc(k.Former, func(r rune) bool { return r == ',' })
}

// leaving returns the replaced images after an upgrade from the set image to another one.
func (k Known) leaving(image string) string {
	former := slices.DeleteFunc(append(k.former(), bundle.ImageDigest(k.Set)), func(d string) bool {
		return d == bundle.ImageDigest(image)
	})
	return strings.Join(former[max(0, len(former)-maxFormer):], ",")
}

// without returns the replaced images without one that is set again because its successor failed.
func (k Known) without(image string) string {
	return strings.Join(slices.DeleteFunc(k.former(), func(d string) bool { return d == bundle.ImageDigest(image) }),
		",")
}
