package guard

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Accounts selects the ServiceAccount that installs each module. The runtime's operator sets it; a bundle, and
// therefore a publisher, cannot. The zero value selects the agent's own permissions for all modules.
type Accounts struct {
	others   string            // user name for modules not in byModule; empty means the agent itself
	byModule map[string]string // user name by module; empty means the agent itself
}

// ParseAccounts parses account settings. At most one setting applies to all modules: NAME or NAMESPACE/NAME. At most
// one setting applies to each module: MODULE=NAME, MODULE=NAMESPACE/NAME, or MODULE= for the agent's own permissions.
// home is the namespace of a NAME without a namespace.
func ParseAccounts(settings []string, home string) (Accounts, error) {
	a := Accounts{byModule: map[string]string{}}
	for _, setting := range settings {
		module, account, one := strings.Cut(setting, "=")
		if !one {
			module, account = "", setting
		}
		user, err := serviceAccountUser(account, home)
		switch {
		case err != nil:
			return Accounts{}, fmt.Errorf("%q: %w", setting, err)
		case one && module == "":
			return Accounts{}, fmt.Errorf("%q: module name before = is missing: must be MODULE=NAMESPACE/NAME", setting)
		case !one && a.others != "":
			return Accounts{},
				fmt.Errorf("%q: duplicate account for all modules: use MODULE=NAMESPACE/NAME for one module", setting)
		case !one:
			a.others = user
			continue
		}
		if _, known := a.byModule[module]; known {
			return Accounts{}, fmt.Errorf("%q: duplicate account for module %s", setting, module)
		}
		a.byModule[module] = user
	}
	return a, nil
}

func serviceAccountUser(account, home string) (string, error) {
	if account == "" {
		return "", nil
	}
	namespace, name, ok := strings.Cut(account, "/")
	if !ok {
		namespace, name = home, account
	}
	if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
		return "", fmt.Errorf("namespace %q: %s", namespace, problems[0])
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return "", fmt.Errorf("service account %q: %s", name, problems[0])
	}
	if isKubernetes(namespace) || isAgents(name) {
		return "", fmt.Errorf("%s/%s belongs to Kubernetes or the agent: use a ServiceAccount of the module", namespace,
			name)
	}
	return "system:serviceaccount:" + namespace + ":" + name, nil
}

// Of returns the user name for installing a module, empty for the agent itself. A setting matches the module's name,
// such as team/keda, or its label, team-keda. If only the name matched, a setting with the label would have no effect
// and the module would get the agent's own permissions.
func (a Accounts) Of(module, label string) string {
	for _, name := range []string{module, label} {
		if user, ok := a.byModule[name]; ok {
			return user
		}
	}
	return a.others
}

// Users returns the user names of all configured ServiceAccounts, sorted and without duplicates.
func (a Accounts) Users() []string {
	users := slices.DeleteFunc(a.All(), func(user string) bool { return user == "" })
	slices.Sort(users)
	return slices.Compact(users)
}

// WithOwnRights returns the start of a sentence about the modules that the agent installs with its own permissions,
// such as "modules keda, nats are". The result is empty if every module has a ServiceAccount.
func (a Accounts) WithOwnRights() string {
	if a.others == "" {
		return "all modules without a configured ServiceAccount are"
	}
	var own []string
	for _, module := range slices.Sorted(maps.Keys(a.byModule)) {
		if a.byModule[module] == "" {
			own = append(own, module)
		}
	}
	if len(own) == 0 {
		return ""
	}
	return "modules " + strings.Join(own, ", ") + " are"
}

// All returns the user names of all settings and an empty name for the agent itself.
func (a Accounts) All() []string {
	users := []string{"", a.others}
	for _, user := range a.byModule {
		users = append(users, user)
	}
	return users
}
