package account

import (
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
)

// Set contains the accounts of all modules.
type Set struct {
	rules  guard.Accounts
	byUser map[string]*Account
}

// NewSet returns the accounts that rules can select.
func NewSet(mgr ctrl.Manager, rules guard.Accounts, fieldManager string) (Set, error) {
	byUser := map[string]*Account{}
	for _, user := range rules.AllUsers() {
		a, err := newUser(mgr, user, fieldManager)
		if err != nil {
			return Set{}, err
		}
		byUser[user] = a
	}
	return Set{rules, byUser}, nil
}

// Of returns the account of a module.
func (s Set) Of(m *v1beta2.Manifest) *Account {
	return s.byUser[s.rules.UserFor(m.Module(), m.ModuleLabel())]
}

// Own returns the agent's own account.
func (s Set) Own() *Account { return s.byUser[""] }
