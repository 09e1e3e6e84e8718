package cli

import (
	"github.com/spf13/cobra"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/internal/cloudauth"
)

const providerFlag = "registry-provider"

// Provider is the value of the flag --registry-provider.
type Provider struct {
	name     string
	newLogin func(provider string) store.LoginFunc
}

// UseLogins replaces the login functions of the flag --registry-provider in a command and its subcommands.
func UseLogins(cmd *cobra.Command, newLogin func(provider string) store.LoginFunc) {
	if flag := cmd.Flags().Lookup(providerFlag); flag != nil {
		if provider, ok := flag.Value.(*Provider); ok {
			provider.newLogin = newLogin
		}
	}
	for _, sub := range cmd.Commands() {
		UseLogins(sub, newLogin)
	}
}

// login returns the provider's login, or nil without a provider.
func (p *Provider) login() store.LoginFunc {
	if p.name == "" || p.name == cloudauth.Generic {
		return nil
	}
	return p.newLogin(p.name)
}

// String returns the name of the provider.
func (p *Provider) String() string { return p.name }

// Set sets the name of the provider.
func (p *Provider) Set(name string) error {
	if err := cloudauth.Check(name); err != nil {
		return err
	}
	p.name = name
	return nil
}

// Type returns the type of the flag for its help text.
func (p *Provider) Type() string { return "string" }
