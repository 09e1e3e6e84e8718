package upgrade

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/bundle"
)

const maxFormerImages = 20

// Target is the agent's image in the last accepted bundle.
type Target struct {
	// Image is the image with its digest. It is empty if the bundle has no image.
	Image string
	// AgentVersion is the version of the running agent.
	AgentVersion string
	// AllowsRollback reports whether the bundle allows a rollback from one image to another.
	AllowsRollback func(from, to string) bool
}

// downgradeReason returns the reason why the agent refuses the bundle's image as older than the current image. It
// returns "" if the agent accepts the image. Without this check, an attacker could downgrade the agent with an older
// bundle's settings.
func (k Snapshot) downgradeReason(w Target) string {
	because := k.olderReason(w)
	if because == "" || w.AllowsRollback(k.TemplateImage, w.Image) {
		return ""
	}
	return fmt.Sprintf(
		"the agent keeps its image %s and does not roll back to %s: %s, and the bundle does not allow this rollback; "+
			"allow it with setting agent-rollback-from of the publisher: %s",
		k.TemplateImage,
		w.Image,
		because,
		bundle.ImageDigest(k.TemplateImage),
	)
}

// olderReason returns the reason why the bundle's image counts as older than the current image, or "".
func (k Snapshot) olderReason(w Target) string {
	switch release, running := bundle.ImageRelease(w.Image), bundle.ReleaseVersion(w.AgentVersion); {
	case w.Image == "", bundle.ImageDigest(w.Image) == bundle.ImageDigest(k.TemplateImage):
		return ""
	case bundle.IsOlder(release, running):
		return fmt.Sprintf("release %s is older than the running release %s", release, running)
	case slices.Contains(k.listFormer(), bundle.ImageDigest(w.Image)):
		return "a later image replaced it"
	}
	return ""
}

func (k Snapshot) listFormer() []string {
	return strings.FieldsFunc(k.FormerDigests, func(r rune) bool { return r == ',' })
}

// formerAfterUpgrade returns the new value of FormerDigests after an upgrade from the current image to another image.
func (k Snapshot) formerAfterUpgrade(image string) string {
	former := slices.DeleteFunc(append(k.listFormer(), bundle.ImageDigest(k.TemplateImage)), func(d string) bool {
		return d == bundle.ImageDigest(image)
	})
	return strings.Join(former[max(0, len(former)-maxFormerImages):], ",")
}

// formerAfterRollback returns the new value of FormerDigests after a rollback to an earlier image.
func (k Snapshot) formerAfterRollback(image string) string {
	return strings.Join(slices.DeleteFunc(k.listFormer(), func(d string) bool { return d == bundle.ImageDigest(image) }),
		",")
}
