package token

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Access is a token's access to one repository, in the same format as the token's access claim.
type Access struct {
	Type    string   `json:"type"`
	Name    string   `json:"name"`
	Actions []string `json:"actions"`
}

// Limits for a token request. Clients request two or three scopes at once: a mount needs two.
const (
	maxScopes      = 16
	maxNameBytes   = 255
	maxActions     = 8
	typeRepository = "repository"
	actionPull     = "pull"
	actionPush     = "push"
	actionDelete   = "delete"
	typeRegistry   = "registry"
	nameCatalog    = "catalog"
	actionAll      = "*"
)

// repositoryName is the grammar for repository names. Each repository has only one spelling in this grammar.
//
// Source: OCI distribution-spec 1.1, "Pulling manifests".
var repositoryName = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`)

var scopeWord = regexp.MustCompile(`^([a-z]+|\*)$`)

// parseScopes parses a request's scope parameters, each with one or more scopes TYPE:NAME:ACTION[,ACTION] separated by
// single spaces.
//
// Source: distribution, docs/spec/auth/scope.md.
func parseScopes(parameters []string) ([]Access, error) {
	var asked []Access
	for _, parameter := range parameters {
		if parameter == "" {
			continue
		}
		for text := range strings.SplitSeq(parameter, " ") {
			if len(asked) == maxScopes {
				return nil, fmt.Errorf("scope: more than %d scopes", maxScopes)
			}
			access, err := parseScope(text)
			if err != nil {
				return nil, fmt.Errorf("scope %d: %w", len(asked)+1, err)
			}
			asked = append(asked, access)
		}
	}
	return asked, nil
}

func parseScope(text string) (Access, error) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return Access{}, fmt.Errorf("must be TYPE:NAME:ACTION[,ACTION]")
	}
	access := Access{Type: parts[0], Name: parts[1], Actions: strings.Split(parts[2], ",")}
	switch {
	case !scopeWord.MatchString(access.Type):
		return Access{}, fmt.Errorf("type: must be lowercase letters")
	case len(access.Name) > maxNameBytes || !repositoryName.MatchString(access.Name):
		return Access{},
			fmt.Errorf(
				"name: must be a repository name of the OCI distribution specification with at most %d bytes",
				maxNameBytes)
	case len(access.Actions) > maxActions:
		return Access{}, fmt.Errorf("actions: more than %d actions", maxActions)
	}
	for _, action := range access.Actions {
		if !scopeWord.MatchString(action) {
			return Access{}, fmt.Errorf("actions: must be lowercase words, separated by commas")
		}
	}
	slices.Sort(access.Actions)
	access.Actions = slices.Compact(access.Actions)
	return access, nil
}
