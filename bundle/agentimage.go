package bundle

import (
	"slices"
	"strings"

	"github.com/distribution/reference"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// AgentComponent stands for the agent in the rollbacks of a statement, and in the floors of a root of trust.
const AgentComponent = "kyma-pull.dev/skr-agent"

// ImageDigest returns the digest of an image reference, or the whole reference without one.
func ImageDigest(image string) string {
	if _, pin, pinned := strings.Cut(image, "@"); pinned {
		return pin
	}
	return image
}

// ImageRelease returns the tag of an image reference, such as 1.2.0 of HOST/PATH:1.2.0@sha256:…, "" without one.
func ImageRelease(image string) string {
	parsed, err := reference.Parse(image)
	if tagged, is := parsed.(reference.Tagged); err == nil && is {
		return tagged.Tag()
	}
	return ""
}

// AgentGoesBack reports whether the statement allows the agent to return from one image to another, by their digests. A
// setting from an earlier bundle names another image than the running one.
func (p Predicate) AgentGoesBack(from, to string) bool {
	return slices.Contains(p.Rollback, Rollback{Module: AgentComponent, From: ImageDigest(from), To: ImageDigest(to)})
}

// AgentRollbacks returns the rollbacks of a statement whose bundle sets an agent's image. from are the images that the
// operator allows the agent to leave for it.
func AgentRollbacks(from []string, image string) (all []Rollback) {
	if image == "" {
		return nil
	}
	for _, left := range from {
		all = append(all, Rollback{Module: AgentComponent, From: ImageDigest(left), To: ImageDigest(image)})
	}
	return all
}

// checkAgentFloor refuses an agent's image below the root's floor, or without a release if there is a floor.
func (s Settings) checkAgentFloor(root trust.Root) error {
	if s.Agent == "" {
		return nil
	}
	return root.CheckFloor(AgentComponent, ImageRelease(s.Agent))
}
