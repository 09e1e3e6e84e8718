package bundle

import (
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
)

// Origin identifies an installed module's version and content, and the bundle that contained this version.
type Origin struct {
	Module    string         `json:"module"`
	Channel   string         `json:"channel,omitempty"`
	Version   string         `json:"version"`
	Component string         `json:"component,omitempty"`
	Template  string         `json:"template,omitempty"`
	Content   []Ingredient   `json:"content"`
	Bundle    BundleIdentity `json:"bundle"`
}

// Ingredient is one blob that a module was installed from.
type Ingredient struct {
	Name       string        `json:"name"`
	Repository string        `json:"repository"`
	Digest     digest.Digest `json:"digest"`
}

// BundleIdentity identifies a bundle and its signer.
type BundleIdentity struct {
	Digest    digest.Digest `json:"digest"`
	Runtime   string        `json:"runtime"`
	Epoch     int64         `json:"epoch"`
	Sequence  int64         `json:"sequence"`
	IssuedAt  time.Time     `json:"issuedAt"`
	ExpiresAt time.Time     `json:"expiresAt"`
	Previous  *Position     `json:"previous,omitempty"`
	// PublisherKey is the signing key's thumbprint. RootVersion is the root of trust's version when the bundle was
	// issued.
	PublisherKey string `json:"publisherKey"`
	RootVersion  int64  `json:"rootVersion"`
	// Source is the Git commit that the bundle was built from, or nil if it was not built from a repository.
	Source *Source `json:"source,omitempty"`
}

// Identity returns the bundle's identity.
func (v Verified) Identity() BundleIdentity {
	p := v.Statement.Predicate
	return BundleIdentity{
		Digest: v.Digest, Runtime: p.Audience.Runtime, Epoch: p.Epoch, Sequence: p.Sequence, IssuedAt: p.IssuedAt,
		ExpiresAt: p.ExpiresAt,
		Previous:  p.Previous, PublisherKey: v.KeyThumbprint, RootVersion: p.RootVersion, Source: p.Source,
	}
}

// Origins returns the origin of every module in the bundle, including modules to remove, sorted by module.
func (b Bundle) Origins() []Origin {
	identity, all := b.Identity(), b.State.All()
	origins := make([]Origin, 0, len(all))
	for _, m := range all {
		origin := Origin{
			Module: m.Module, Channel: m.Channel, Version: m.Version, Component: m.Component, Template: m.Template,
			Content: make([]Ingredient, 0, len(m.Content)), Bundle: identity,
		}
		for _, c := range m.Content {
			origin.Content = append(origin.Content, Ingredient{c.Name, c.Repository, c.Digest})
		}
		origins = append(origins, origin)
	}
	slices.SortFunc(origins, func(a, b Origin) int { return strings.Compare(a.Module, b.Module) })
	return origins
}
