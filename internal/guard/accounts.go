package guard

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Accounts selects the ServiceAccount that installs each module. A runtime operator configures the selection, and a
// bundle cannot change it. With the zero value, the agent installs all modules with its own permissions.
type Accounts struct {
	defaultUser  string            // user name for modules without their own account; empty for the agent itself
	userByModule map[string]string // user name by module; empty for the agent itself
}

// ParseAccounts parses account settings: NAME or NAMESPACE/NAME for all modules, and MODULE=NAME or
// MODULE=NAMESPACE/NAME for one module. MODULE= selects the agent's own permissions for one module. The default
// namespace is agentNamespace.
func ParseAccounts(settings []string, agentNamespace string) (Accounts, error) {
	a := Accounts{userByModule: map[string]string{}}
	for _, setting := range settings {
		module, account, one := strings.Cut(setting, "=")
		if !one {
			module, account = "", setting
		}
		user, err := serviceAccountUser(account, agentNamespace)
		switch {
		case err != nil:
			return Accounts{}, fmt.Errorf("%q: %w", setting, err)
		case one && module == "":
			return Accounts{}, fmt.Errorf("%q: module name before = is missing: must be MODULE=NAMESPACE/NAME", setting)
		case !one && a.defaultUser != "":
			return Accounts{},
				fmt.Errorf("%q: duplicate account for all modules: use MODULE=NAMESPACE/NAME for one module", setting)
		case !one:
			a.defaultUser = user
			continue
		}
		if _, known := a.userByModule[module]; known {
			return Accounts{}, fmt.Errorf("%q: duplicate account for module %s", setting, module)
		}
		a.userByModule[module] = user
	}
	return a, nil
}

func serviceAccountUser(account, agentNamespace string) (string, error) {
	if account == "" {
		return "", nil
	}
	namespace, name, ok := strings.Cut(account, "/")
	if !ok {
		namespace, name = agentNamespace, account
	}
	if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
		return "", fmt.Errorf("namespace %q: %s", namespace, problems[0])
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return "", fmt.Errorf("service account %q: %s", name, problems[0])
	}
	if isKubernetesNamespace(namespace) || isAgentName(name) {
		return "", fmt.Errorf("%s/%s belongs to Kubernetes or the agent: use the module's own ServiceAccount", namespace,
			name)
	}
	return "system:serviceaccount:" + namespace + ":" + name, nil
}

// UserFor returns the user name that installs a module, or "" for the agent itself. Settings can refer to the module by
// its name, such as team/keda, or by its label, such as team-keda.
func (a Accounts) UserFor(module, label string) string {
	for _, name := range []string{module, label} {
		if user, ok := a.userByModule[name]; ok {
			return user
		}
	}
	return a.defaultUser
}

// Users returns the user names of all configured ServiceAccounts, sorted.
func (a Accounts) Users() []string {
	users := slices.DeleteFunc(a.AllUsers(), func(user string) bool { return user == "" })
	slices.Sort(users)
	return slices.Compact(users)
}

// DescribeOwnRights returns the start of a sentence about the modules without a ServiceAccount, such as "modules keda,
// nats are". It returns "" if every module has one.
func (a Accounts) DescribeOwnRights() string {
	if a.defaultUser == "" {
		return "all modules without a configured ServiceAccount are"
	}
	var own []string
	for _, module := range slices.Sorted(maps.Keys(a.userByModule)) {
		if a.userByModule[module] == "" {
			own = append(own, module)
		}
	}
	if len(own) == 0 {
		return ""
	}
	return "modules " + strings.Join(own, ", ") + " are"
}

// AllUsers returns the user names in all settings. The name "" stands for the agent itself.
func (a Accounts) AllUsers() []string {
	users := []string{"", a.defaultUser}
	for _, user := range a.userByModule {
		users = append(users, user)
	}
	return users
}
