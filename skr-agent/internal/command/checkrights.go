package command

import (
	"context"
	"slices"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/kyma-pull/kyma-pull/charts"
	"github.com/kyma-pull/kyma-pull/internal/preflight"
)

const (
	partAllModules    = "all-modules"
	partChecks        = "checks"
	partModuleAccount = "module-account"
)

const installedByAgent = " installed with the agent's own permissions"

// checkPermissions checks the permissions that the agent needs with these flags.
func (f *checkFlags) checkPermissions(
	ctx context.Context, api *preflight.Cluster, config *rest.Config,
) []preflight.Finding {
	parts := []string{"agent"}
	if f.self {
		parts = append(parts, "self-upgrade")
	}
	users := f.accounts.Users()
	findings := api.CheckRights(ctx, charts.AgentRBAC, rightsDir, parts, nil, rightsAdvice)
	if f.accounts.DescribeOwnRights() != "" {
		checks := api.CheckRights(ctx, charts.AgentRBAC, rightsDir, []string{partChecks}, nil, rightsAdvice)
		findings = append(findings, asWarnings("checks of modules are Inconclusive", checks)...)
	}
	if len(users) == 0 {
		all := api.CheckRights(ctx, charts.AgentRBAC, rightsDir, []string{partAllModules}, nil, moduleRightsAdvice)
		return append(findings, asWarnings("all modules are"+installedByAgent, all)...)
	}
	path := rightsDir + "/" + partModuleAccount + ".yaml"
	permissions, err := preflight.Permissions(charts.AgentRBAC, path, nil)
	if err != nil {
		return append(findings, preflight.Fail("rights, "+partModuleAccount, err.Error(), ""))
	}
	findings = append(findings, api.CheckPermissions(ctx, partModuleAccount, withImpersonation(permissions, users),
		rightsAdvice(path)+" with the names of these ServiceAccounts"))
	if own := f.accounts.DescribeOwnRights(); own != "" {
		findings = append(
			findings,
			asWarnings(own+installedByAgent,
				api.CheckRights(ctx, charts.AgentRBAC, rightsDir, []string{partAllModules}, nil, rightsAdvice))...)
	}
	for _, user := range users {
		findings = append(findings, preflight.ActsAs(ctx, config, user))
	}
	return findings
}

func rightsAdvice(file string) string {
	return "install the chart, which grants these permissions, or apply charts/" + file
}

// moduleRightsAdvice returns the two ways to grant the permissions that modules need.
func moduleRightsAdvice(string) string {
	return "grant the agent the permissions of its modules with kcp-publisher component role, " +
		"or all permissions with rbac.clusterAdmin of the chart"
}

// withImpersonation replaces the ServiceAccount in the impersonation permission of the Helm chart with the
// ServiceAccounts that the agent is configured to impersonate.
func withImpersonation(permissions []preflight.Permission, users []string) []preflight.Permission {
	var all []preflight.Permission
	for _, p := range permissions {
		if p.Verb != "impersonate" {
			all = append(all, p)
			continue
		}
		for _, user := range users {
			account := strings.Split(user, ":") // system:serviceaccount:NAMESPACE:NAME
			p.Namespace, p.Name = account[len(account)-2], account[len(account)-1]
			if !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
	}
	return all
}

// asWarnings turns failed findings into warnings, because only some modules need these permissions. Each message starts
// with effect, which describes the consequence of the missing permission.
func asWarnings(effect string, findings []preflight.Finding) []preflight.Finding {
	for i := range findings {
		if findings[i].Result == preflight.Failed {
			findings[i].Result = preflight.Warning
			findings[i].Message = effect + ": " + findings[i].Message
		}
	}
	return findings
}
