package upgrade

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/bundle"
)

const maxFormer = 20

// Wanted is the agent's image in the last accepted bundle.
type Wanted struct {
	// Image is the image with its digest. Empty if the bundle has no image.
	Image string
	// Release is the version of the running agent.
	Release string
	// GoesBack reports whether the bundle allows a rollback from one image to another.
	GoesBack func(from, to string) bool
}

// older returns the reason why the agent refuses the bundle's image as older than the current image, or "" if it
// accepts the image. Without this check, an attacker could downgrade the agent with the settings of an older bundle.
func (k Known) older(w Wanted) string {
	if w.Image == "" || bundle.ImageDigest(w.Image) == bundle.ImageDigest(k.Set) || w.GoesBack(k.Set, w.Image) {
		return ""
	}
	because := ""
	switch release := bundle.ImageRelease(w.Image); {
	case bundle.Older(release, w.Release):
		because = fmt.Sprintf("release %s is older than the running release %s", release, w.Release)
	case slices.Contains(k.former(), bundle.ImageDigest(w.Image)):
		because = "a later image replaced it"
	default:
		return ""
	}
	return fmt.Sprintf(
		"the agent keeps its image %s and does not roll back to %s: %s, and the bundle does not allow this rollback; "+
			"allow it with setting agent-rollback-from of the publisher: %s",
		k.Set,
		w.Image,
		because,
		bundle.ImageDigest(k.Set),
	)
}

func (k Known) former() []string {
	return strings.FieldsFunc(k.Former, func(r rune) bool { return r == ',' })
}

// leaving returns the list of former images after an upgrade from the current image to another image.
func (k Known) leaving(image string) string {
	former := slices.DeleteFunc(append(k.former(), bundle.ImageDigest(k.Set)), func(d string) bool {
		return d == bundle.ImageDigest(image)
	})
	return strings.Join(former[max(0, len(former)-maxFormer):], ",")
}

// without returns the list of former images after a rollback to one of them.
func (k Known) without(image string) string {
	return strings.Join(slices.DeleteFunc(k.former(), func(d string) bool { return d == bundle.ImageDigest(image) }),
		",")
}
