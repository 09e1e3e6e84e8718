package token

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Policy says what is where in the registry, by names without its host.
type Policy struct {
	prefix  string
	modules []pattern
}

// pattern is one repository, or all below one.
type pattern struct {
	base  string
	below bool
}

// belowSuffix ends a pattern that means all repositories below one.
const belowSuffix = "/**"

// NewPolicy reads a prefix such as "fleet" and the module repositories, each a name or NAME/** for all below it. A pattern that
// would open what belongs to single runtimes is an error.
func NewPolicy(prefix string, modules []string) (Policy, error) {
	if !repositoryName.MatchString(prefix) {
		return Policy{}, fmt.Errorf("prefix %q: want a path such as fleet", prefix)
	}
	policy := Policy{prefix: prefix}
	for _, text := range modules {
		base, below := strings.CutSuffix(text, belowSuffix)
		p := pattern{base: base, below: below}
		if !repositoryName.MatchString(base) {
			return Policy{}, fmt.Errorf("module repository %q: want a repository's name, or NAME%s for all below it", text, belowSuffix)
		}
		if policy.overlaps(p) {
			return Policy{}, fmt.Errorf("module repository %q: would open to every runtime what %s keeps for single ones: name what is below it one by one", text, prefix)
		}
		policy.modules = append(policy.modules, p)
	}
	return policy, nil
}

// overlaps reports whether the pattern means repositories that the prefix keeps from some runtimes.
func (p Policy) overlaps(module pattern) bool {
	for _, private := range []string{"runtimes", "reports", bundle.DocumentsRepository} {
		area := p.prefix + "/" + private
		if module.base == area || strings.HasPrefix(module.base, area+"/") || module.below && strings.HasPrefix(area, module.base+"/") {
			return true
		}
	}
	return false
}

// Grant returns what of asked the user may have. It is never more than asked, and never more than the user's; what is neither is left
// out in silence, as the specification wants it.
func (p Policy) Grant(user string, asked []Access) []Access {
	granted := []Access{}
	for _, a := range asked {
		if a.Type != typeRepository {
			continue
		}
		may := p.actions(user, a.Name)
		actions := slices.DeleteFunc(slices.Clone(a.Actions), func(action string) bool { return !slices.Contains(may, action) })
		if len(actions) > 0 {
			granted = append(granted, Access{Type: typeRepository, Name: a.Name, Actions: actions})
		}
	}
	return granted
}

// actions are what the user may do in a repository. Names are compared whole: the runtime "a" has nothing to do with "a-b" or "a/b".
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
	case UserModules:
		if p.isModule(repository) {
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
	case p.prefix + "/" + bundle.DesiredRepository(user), p.prefix + "/" + bundle.TrustRepository, p.prefix + "/" + bundle.ContentRepository:
		return read
	}
	if p.isModule(repository) {
		return read
	}
	return nil
}

func (p Policy) isModule(repository string) bool {
	return slices.ContainsFunc(p.modules, func(m pattern) bool {
		if m.below {
			return strings.HasPrefix(repository, m.base+"/")
		}
		return repository == m.base
	})
}

// SplitLocation takes a location HOST/PATH apart.
func SplitLocation(location string) (host, prefix string, err error) {
	host, prefix, ok := strings.Cut(strings.Trim(location, "/"), "/")
	if !ok || host == "" || strings.Contains(location, "://") {
		return "", "", errors.New("want HOST[:PORT]/PATH without a scheme")
	}
	return host, prefix, nil
}
