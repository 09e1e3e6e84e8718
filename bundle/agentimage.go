package bundle

import (
	"slices"
	"strings"

	"github.com/distribution/reference"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// AgentComponent is the component name of the agent.
const AgentComponent = "kyma-pull.dev/skr-agent"

// ImageDigest returns the digest of an image reference, or the whole reference if it has no digest.
func ImageDigest(image string) string {
	if _, pin, pinned := strings.Cut(image, "@"); pinned {
		return pin
	}
	return image
}

// ImageRelease returns the release in an image reference's tag, such as 1.2.0 for HOST/PATH:1.2.0@sha256:…, or "" if
// the tag is not a release version.
func ImageRelease(image string) string {
	parsed, err := reference.Parse(image)
	if tagged, is := parsed.(reference.Tagged); err == nil && is {
		return ReleaseVersion(tagged.Tag())
	}
	return ""
}

// AllowsAgentRollback reports whether the statement allows the agent to roll back from one image to another.
func (p Predicate) AllowsAgentRollback(from, to string) bool {
	return slices.Contains(p.Rollback, Rollback{Module: AgentComponent, From: ImageDigest(from), To: ImageDigest(to)})
}

// AgentRollbacks returns one entry for Predicate.Rollback per image in from. The entry allows an agent that runs this
// image to switch to the given image, even if the given image is older.
func AgentRollbacks(from []string, image string) (all []Rollback) {
	if image == "" {
		return nil
	}
	for _, left := range from {
		all = append(all, Rollback{Module: AgentComponent, From: ImageDigest(left), To: ImageDigest(image)})
	}
	return all
}

func (s Settings) checkAgentFloor(root trust.Root) error {
	if s.Agent == "" {
		return nil
	}
	return root.CheckFloor(AgentComponent, ImageRelease(s.Agent))
}
