package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/intake"
)

func newVerify() *cobra.Command {
	var trustFile, runtime, clusterUID, format string
	var skew time.Duration
	var registry cli.Registry
	cmd := &cobra.Command{
		Use: "verify REF", Short: "verify whether a runtime would accept a bundle",
		Long: "verify runs all checks that a newly enrolled agent runs on its first bundle.\n\n" +
			"REF is a registry reference (HOST/PATH/runtimes/ID:desired or …@sha256:…), a prefix (HOST/PATH), or an " +
			"OCI layout\n" +
			"(oci-layout:DIR, or oci-layout:DIR:runtimes/ID:desired). With a prefix or layout, --runtime selects the " +
			"bundle.\n\n" +
			"The exit code is 0 if the bundle is accepted, and 3 if it is refused.",
		Args: cli.Exactly(1, "one reference"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.RequireFlags(cli.Required{Flag: "--trust", Given: trustFile != ""},
				cli.Required{Flag: "--runtime", Given: runtime != ""}); err != nil {
				return err
			}
			if skew <= 0 {
				return cli.Usage(fmt.Errorf("--clock-skew %s: must be more than 0", skew))
			}
			if err := trust.CheckRuntimeID(runtime); err != nil {
				return cli.Usage(err)
			}
			registries, err := registry.Registries(store.Access{})
			if err != nil {
				return err
			}
			root, err := cli.ReadRoot(trustFile)
			if err != nil {
				return err
			}
			trusted := bundle.Trust{Root: root, Runtime: runtime, ClusterUID: clusterUID, ClockSkew: skew}
			accepted, root, err := verifyBundle(cmd.Context(), registries, args[0], trusted)
			if e := refusal.Of(err); e != nil && (e.Reason == refusal.UnknownKey || e.Reason == refusal.BadRoot) {
				err = fmt.Errorf("%w: check that --trust %s belongs to the bundle's fleet", err, trustFile)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return printVerdict(cmd.OutOrStdout(), format, accepted, root)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&trustFile, "trust", "", "file with the root of trust from kcp-publisher keys init")
	flags.StringVar(&runtime, "runtime", "", "ID of the runtime that the bundle must be issued for")
	flags.StringVar(&clusterUID, "cluster-uid", "",
		"UID of the runtime's kube-system namespace; default: not compared with the bundle")
	flags.DurationVar(&skew, "clock-skew", trust.MaxClockSkew, clockSkewUsage)
	cli.OutputFlag(flags, &format)
	registry.AddFlags(flags)
	return cmd
}

// verifyBundle verifies a bundle as a newly enrolled agent with this root of trust would. It first updates the root
// from the registry.
func verifyBundle(
	ctx context.Context, registries *store.Registries, ref string, trusted bundle.Trust,
) (bundle.Bundle, trust.Root, error) {
	at, err := locate(ctx, registries, ref, trusted.Runtime)
	if err != nil {
		return bundle.Bundle{}, trusted.Root, err
	}
	return verifyAt(ctx, registries, at, trusted)
}

// verifyAt verifies the bundle at a location. It returns the root of trust that verified the bundle.
func verifyAt(
	ctx context.Context, registries *store.Registries, at bundleLocation, trusted bundle.Trust,
) (bundle.Bundle, trust.Root, error) {
	if at.place != nil {
		newest, refused, _, err := store.FollowRoot(ctx, at.place, trusted.Root)
		if err != nil {
			return bundle.Bundle{}, trusted.Root, err
		}
		if refused != nil {
			return bundle.Bundle{}, trusted.Root, fmt.Errorf("root of trust version %d: %w", newest.Version+1, refused)
		}
		trusted.Root = newest
	}
	fetched, err := store.Fetch(ctx, at.repository, at.reference)
	if errors.Is(err, store.ErrNotFound) && at.place != nil && at.reference == bundle.TagDesired {
		err = newNoBundleError(ctx, at.place, trusted.Runtime, err)
	}
	if err != nil {
		return bundle.Bundle{}, trusted.Root, err
	}
	contents := intake.Contents{Location: at.place, Registries: registries}
	source := intake.Source{Documents: at.repository,
		ReadProof: func(ctx context.Context, c bundle.Content) ([]byte, error) {
			return contents.Fetch(ctx, c, bundle.Settings{}, bundle.MaxManifestBytes)
		}}
	opened, err := intake.Open(ctx, source, fetched, trusted, time.Now())
	return opened.Bundle, trusted.Root, err
}

// bundleLocation is the location of the bundle that the command verify reads. place is the fleet's registry or folder,
// or nil if the reference does not belong to a fleet.
type bundleLocation struct {
	place      store.Store
	repository store.Reader
	reference  string
}

// locate opens a reference's repository. If the reference is a prefix or layout without a repository, locate selects
// the runtime's newest bundle.
func locate(ctx context.Context, registries *store.Registries, ref, runtime string) (bundleLocation, error) {
	repository, reference := bundle.DesiredRepository(runtime), bundle.TagDesired
	at := ref
	if rest, ok := strings.CutPrefix(ref, store.LayoutScheme); ok {
		dir, inside, named := strings.Cut(rest, ":")
		at = store.LayoutScheme + dir
		if named {
			repository, reference = splitReference(inside)
		}
	} else if name, tag := splitReference(ref); tag != "" && strings.Contains(name, "/") { // not HOST:PORT
		prefix, ofFleet := strings.CutSuffix(name, "/"+repository)
		if !ofFleet {
			full, err := registries.Repository(name)
			return bundleLocation{nil, full, tag}, err
		}
		at, reference = prefix, tag
	}
	place, err := store.Open(at, registries)
	if err != nil {
		return bundleLocation{}, cli.Usage(err)
	}
	target, err := place.Reading(ctx, repository)
	return bundleLocation{place, target, reference}, err
}

// splitReference returns the repository and the tag or digest of a reference.
func splitReference(ref string) (string, string) {
	if name, d, ok := strings.Cut(ref, "@"); ok && digest.Digest(d).Validate() == nil {
		if i := strings.LastIndex(name, ":"); i > strings.LastIndex(name, "/") {
			name = name[:i]
		}
		return name, d
	}
	if i := strings.LastIndex(ref, ":"); i > strings.LastIndex(ref, "/") {
		return ref[:i], ref[i+1:]
	}
	return ref, ""
}

type verdict struct {
	Verdict   string           `json:"verdict"`
	Runtime   string           `json:"runtime"`
	Digest    string           `json:"digest"`
	Epoch     int64            `json:"epoch"`
	Sequence  int64            `json:"sequence"`
	Previous  *bundle.Position `json:"previous,omitempty"`
	IssuedAt  time.Time        `json:"issuedAt"`
	ExpiresAt time.Time        `json:"expiresAt"`
	SignedBy  string           `json:"signedBy"`
	Source    *bundle.Source   `json:"source,omitempty"`
	// Root is the version of the root of trust that lists the signing key. IssuedUnder is the version of the newest
	// root of trust that the publisher had when it signed the bundle.
	Root        int64    `json:"rootVersion"`
	IssuedUnder int64    `json:"issuedUnderRootVersion"`
	Modules     []module `json:"modules"`
	Removals    []string `json:"removals,omitempty"`
}

// module is a module in the output of the command verify.
type module struct {
	Name      string              `json:"name"`
	Version   string              `json:"version"`
	Channel   string              `json:"channel,omitempty"`
	Component string              `json:"component,omitempty"`
	Content   []bundle.Ingredient `json:"content"`
}

func printVerdict(out io.Writer, format string, b bundle.Bundle, root trust.Root) error {
	id := b.Identity()
	v := verdict{
		"accepted", id.Runtime, id.Digest.String(), id.Epoch, id.Sequence, id.Previous, id.IssuedAt, id.ExpiresAt,
		id.PublisherKey, id.Source,
		root.Version, id.RootVersion, []module{}, b.Statement.Predicate.Removals,
	}
	for _, o := range b.Origins() {
		v.Modules = append(v.Modules, module{o.Module, o.Version, o.Channel, o.Component, o.Content})
	}
	return cli.Print(out, format, v, v.draw)
}

func (v verdict) draw(out io.Writer) {
	cli.Printf(
		out,
		"accepted   bundle %s\nruntime    %s\nsequence   %d in epoch %d\nissued     %s\nexpires    %s\nsigned by  "+
			"%s, listed in root of trust version %d\n",
		v.Digest,
		v.Runtime,
		v.Sequence,
		v.Epoch,
		v.IssuedAt.Format(time.RFC3339),
		v.ExpiresAt.Format(time.RFC3339),
		v.SignedBy,
		v.Root,
	)
	if v.Source != nil {
		cli.Printf(out, "source     %s\n", v.Source)
	}
	for _, m := range v.Modules {
		cli.Printf(out, "module     %s %s\n", m.Name, m.Version)
		if m.Component != "" {
			cli.Printf(out, "  component  %s:%s\n", m.Component, m.Version)
		}
		for _, c := range m.Content {
			cli.Printf(out, "  content    %s@%s\n", c.Repository, c.Digest)
		}
	}
	for _, m := range v.Removals {
		cli.Printf(out, "removes    %s\n", m)
	}
}
