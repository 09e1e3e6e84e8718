package signin

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
)

// Mapping maps an ID token's claims to a user, as kube-apiserver does with its flags.
//
// Source: kube-apiserver, --oidc-username-claim, --oidc-username-prefix, --oidc-groups-claim, --oidc-groups-prefix.
type Mapping struct {
	Issuer string
	// UsernameClaim defaults to "sub". UsernamePrefix defaults to the issuer and "#", or to no prefix for the claim
	// "email". The value "-" disables the prefix.
	UsernameClaim, UsernamePrefix string
	// GroupsClaim is the name of a claim with a string or a list of strings. If it is empty, users have no groups.
	GroupsClaim, GroupsPrefix string
}

const (
	// reservedPrefix is the prefix of the users and groups that Kubernetes defines. A provider must not assign them.
	reservedPrefix = "system:"
	// maxName is the maximum length of a user or group name in bytes. maxGroups is the maximum number of groups per
	// user.
	maxName   = 512
	maxGroups = 500
)

func (m Mapping) user(claims map[string]json.RawMessage) (*user.DefaultInfo, error) {
	claim := m.UsernameClaim
	if claim == "" {
		claim = "sub"
	}
	var name string
	if err := json.Unmarshal(claims[claim], &name); err != nil || name == "" || len(name) > maxName {
		return nil, fmt.Errorf("ID token: claim %q must be a name of at most %d bytes", claim, maxName)
	}
	if claim == "email" {
		if err := checkVerified(claims); err != nil {
			return nil, err
		}
	}
	name = m.usernamePrefix(claim) + name
	if strings.HasPrefix(name, reservedPrefix) {
		return nil,
			fmt.Errorf("ID token: user name %q is reserved for Kubernetes, because it starts with %q", name, reservedPrefix)
	}
	groups, err := m.groups(claims)
	if err != nil {
		return nil, err
	}
	return &user.DefaultInfo{Name: name, Groups: append(groups, user.AllAuthenticated)}, nil
}

// checkVerified returns an error if the claim email_verified exists and is not true.
func checkVerified(claims map[string]json.RawMessage) error {
	claim, ok := claims["email_verified"]
	if !ok {
		return nil
	}
	var yes bool
	if err := json.Unmarshal(claim, &yes); err != nil || !yes {
		return errors.New("ID token: the email address is not verified")
	}
	return nil
}

func (m Mapping) usernamePrefix(claim string) string {
	switch {
	case m.UsernamePrefix == "-", m.UsernamePrefix == "" && claim == "email":
		return ""
	case m.UsernamePrefix == "":
		return m.Issuer + "#"
	}
	return m.UsernamePrefix
}

// groups returns the user's groups without groups that have the reserved prefix. Otherwise, a user who can choose
// groups at the provider could become an administrator.
func (m Mapping) groups(claims map[string]json.RawMessage) ([]string, error) {
	raw, ok := claims[m.GroupsClaim]
	if m.GroupsClaim == "" || !ok {
		return nil, nil
	}
	var named []string
	var one string
	if err := json.Unmarshal(raw, &one); err == nil {
		named = []string{one}
	} else if err := json.Unmarshal(raw, &named); err != nil {
		return nil, fmt.Errorf("ID token: claim %q must be a string or a list of strings", m.GroupsClaim)
	}
	if len(named) > maxGroups {
		return nil, fmt.Errorf("ID token: claim %q has %d groups, must have at most %d", m.GroupsClaim, len(named),
			maxGroups)
	}
	var groups []string
	for _, group := range named {
		group = m.GroupsPrefix + group
		if group != "" && len(group) <= maxName && !strings.HasPrefix(group, reservedPrefix) {
			groups = append(groups, group)
		}
	}
	return groups, nil
}
