package token

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Policy describes the registry's repositories, by names without the host.
type Policy struct {
	prefix  string
	modules []pattern
}

// pattern matches one repository, or all repositories below a name.
type pattern struct {
	base  string
	below bool
}

const belowSuffix = "/**"

// NewPolicy parses a prefix such as "fleet" and the names of the module repositories, each in the form NAME or NAME/**.
// It returns an error for a pattern that includes one of the fleet's own repositories.
func NewPolicy(prefix string, modules []string) (Policy, error) {
	if !repositoryName.MatchString(prefix) {
		return Policy{}, fmt.Errorf("prefix %q: must be a path such as fleet", prefix)
	}
	policy := Policy{prefix: prefix}
	for _, text := range modules {
		base, below := strings.CutSuffix(text, belowSuffix)
		p := pattern{base: base, below: below}
		if !repositoryName.MatchString(base) {
			return Policy{},
				fmt.Errorf("module repository %q: must be the name of a repository, or NAME%s for all below it", text,
					belowSuffix)
		}
		if area, reason := policy.findOverlap(p); area != "" {
			return Policy{},
				fmt.Errorf(
					"module repository %q is or contains %s/%s, %s: list the repositories below %s one by one, "+
						"without this one", text, prefix, area, reason, prefix)
		}
		policy.modules = append(policy.modules, p)
	}
	return policy, nil
}

// Reasons why one of the fleet's repositories must not be a module repository. Every runtime can read module
// repositories, and every module publisher can write to them.
const (
	runtimeReason   = "which is reserved for single runtimes and would become readable by all runtimes"
	publisherReason = "which only the publisher must be able to write"
)

// ownRepositories contains the fleet's own repositories below the prefix, and the reasons why module repositories must
// not include them.
var ownRepositories = []struct{ area, reason string }{
	{strings.TrimSuffix(bundle.DesiredRepository(""), "/"), runtimeReason},
	{strings.TrimSuffix(bundle.ReportRepository(""), "/"), runtimeReason},
	{bundle.DocumentsRepository, runtimeReason},
	{bundle.TrustRepository, publisherReason},
	{bundle.ContentRepository, publisherReason},
	{bundle.CarriedRepository, publisherReason},
	{bundle.PruningRepository, publisherReason},
}

// imageArea is the parent of the repositories with carried images. Every runtime can read them, because its Pods use
// the images.
var imageArea = strings.TrimSuffix(bundle.ImageRepository(""), "/")

// findOverlap returns the fleet's own repository that a pattern includes, and the reason why this is not allowed, or
// two empty strings.
func (p Policy) findOverlap(module pattern) (area, reason string) {
	for _, o := range ownRepositories {
		at := p.prefix + "/" + o.area
		if module.base == at || strings.HasPrefix(module.base, at+"/") || module.below &&
			strings.HasPrefix(at, module.base+"/") {
			return o.area, o.reason
		}
	}
	return "", ""
}

// Grant returns the allowed part of the requested access.
func (p Policy) Grant(user string, requested []Access) []Access {
	granted := []Access{}
	for _, a := range requested {
		if user == UserPruner && a.Type == typeRegistry && a.Name == nameCatalog &&
			slices.Contains(a.Actions, actionAll) {
			granted = append(granted, Access{Type: typeRegistry, Name: nameCatalog, Actions: []string{actionAll}})
			continue
		}
		if a.Type != typeRepository {
			continue
		}
		may := p.actions(user, a.Name)
		actions := slices.DeleteFunc(slices.Clone(a.Actions), func(action string) bool {
			return !slices.Contains(may, action)
		})
		if len(actions) > 0 {
			granted = append(granted, Access{Type: typeRepository, Name: a.Name, Actions: actions})
		}
	}
	return granted
}

// actions returns the actions that a user is allowed to perform in a repository. It compares whole names: runtime "a"
// does not have access to the repositories for "a-b" or "a/b".
func (p Policy) actions(user, repository string) []string {
	read, write := []string{actionPull}, []string{actionPull, actionPush}
	switch user {
	case UserPublisher:
		if strings.HasPrefix(repository, p.prefix+"/") {
			return write
		}
		if p.isModule(repository) {
			return read
		}
		return nil
	case UserPruner:
		return p.pruning(repository)
	case UserReader:
		if p.isReported(repository) || p.isModule(repository) && !p.isImage(repository) {
			return read
		}
		return nil
	case UserModules:
		if p.isModule(repository) && !p.isImage(repository) {
			return write
		}
		return nil
	}
	if trust.CheckRuntimeID(user) != nil {
		return nil
	}
	switch repository {
	case p.prefix + "/" + bundle.ReportRepository(user):
		return write
	case p.prefix + "/" + bundle.DesiredRepository(user), p.prefix + "/" + bundle.TrustRepository,
		p.prefix + "/" + bundle.ContentRepository:
		return read
	}
	if p.isModule(repository) || p.isImage(repository) {
		return read
	}
	return nil
}

// pruning returns the pruner's actions. The pruner can push only to the repository with its own record, so a stolen
// pruner password cannot change the modules in a runtime.
func (p Policy) pruning(repository string) []string {
	switch {
	case repository == p.prefix+"/"+bundle.TrustRepository:
		return []string{actionPull} // roots of trust are never removed
	case repository == p.prefix+"/"+bundle.PruningRepository:
		return []string{actionPull, actionPush, actionDelete}
	case strings.HasPrefix(repository, p.prefix+"/"):
		return []string{actionPull, actionDelete}
	}
	return nil
}

// isReported reports whether a repository contains bundles, reports, or the shared data for verifying them.
func (p Policy) isReported(repository string) bool {
	below, found := strings.CutPrefix(repository, p.prefix+"/")
	return found && (below == bundle.TrustRepository || below == bundle.ContentRepository ||
		strings.HasPrefix(below, bundle.DesiredRepository("")) || strings.HasPrefix(below, bundle.ReportRepository("")))
}

// isImage reports whether a repository contains carried images. A pattern for module repositories can include such a
// repository, but only the publisher can write to it.
func (p Policy) isImage(repository string) bool {
	return strings.HasPrefix(repository, p.prefix+"/"+imageArea+"/")
}

func (p Policy) isModule(repository string) bool {
	return slices.ContainsFunc(p.modules, func(m pattern) bool {
		if m.below {
			return strings.HasPrefix(repository, m.base+"/")
		}
		return repository == m.base
	})
}

// SplitLocation splits a location HOST/PATH, which can start with oci://.
func SplitLocation(location string) (host, prefix string, err error) {
	location = strings.TrimPrefix(location, store.OCIScheme)
	host, prefix, ok := strings.Cut(strings.Trim(location, "/"), "/")
	if !ok || host == "" || strings.Contains(location, "://") {
		return "", "", errors.New("must be HOST[:PORT]/PATH")
	}
	return host, prefix, nil
}
