package cli

import (
	"cmp"
	"net/http"

	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// hint returns what a person can do about an error that a registry's answer explains badly, empty for other errors.
func hint(err error) string {
	status, answered := store.Answered(err)
	if !answered {
		return ""
	}
	host := cmp.Or(store.AnsweredBy(err), "the registry")
	switch status {
	case http.StatusUnauthorized:
		return host + " accepts no request without a user and password, or not with these: name a docker config.json that has them with --registry-config (`docker login` writes one)"
	case http.StatusForbidden:
		return host + " does not let this user do that: give the user the right, or name a docker config.json of another user with --registry-config"
	}
	return ""
}
