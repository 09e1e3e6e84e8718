// Package component implements the commands that create, read and verify OCM components, and that run modules' checks.
package component

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/flagset"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/archive"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/component"
)

type componentCommand struct {
	components flagset.ComponentFlags
	registry   cli.Registry
	format     string
}

// New returns the command component.
func New() *cobra.Command {
	return cli.Group(
		"component", "create, show, verify and copy OCM component versions, and print the permissions to install them",
		newComponentCreate(), newComponentShow(), newComponentVerify(), newComponentCopy(),
		newComponentRole(),
	)
}

func (c *componentCommand) add(cmd *cobra.Command) *cobra.Command {
	c.components.Add(cmd.Flags(), cmd.Flags())
	c.registry.AddFlags(cmd.Flags())
	return cmd
}

// withComponent reads the component version NAME:VERSION and passes it to run.
func (c *componentCommand) withComponent(
	cmd *cobra.Command, name string,
	run func(context.Context, *flagset.OpenedComponents, *store.Registries, component.Component) error,
) (err error) {
	name, version, ok := strings.Cut(name, ":")
	if !ok {
		return cli.Usage(
			fmt.Errorf("component %q: must be NAME:VERSION, such as kyma-project.io/module/keda:1.8.0", name))
	}
	registries, err := c.registry.Registries(store.Access{})
	if err != nil {
		return err
	}
	opened, err := c.components.Open(component.Options{
		Registries: registries, Revalidate: time.Hour, RetryAfter: time.Hour,
	}, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	found, err := opened.Reader.Component(cmd.Context(), name, version)
	if err != nil {
		return err
	}
	return run(cmd.Context(), opened, registries, found)
}

func newComponentShow() *cobra.Command {
	c := &componentCommand{}
	cmd := c.add(&cobra.Command{
		Use: "show NAME:VERSION", Short: "show the content of a component version",
		Args: cli.Exactly(1, "NAME:VERSION"),
		Long: "show prints the resources, references, images and signatures of a component version as a table, or " +
			"its full descriptor as YAML or JSON.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withComponent(cmd, args[0],
				func(ctx context.Context, opened *flagset.OpenedComponents, _ *store.Registries, found component.Component) error {
					document, err := found.Descriptor.Document()
					if err != nil {
						return err
					}
					var tree any
					if err := yaml.Unmarshal(document, &tree); err != nil {
						return err
					}
					all, err := opened.Reader.Closure(ctx, found)
					if err != nil {
						return err
					}
					return cli.Print(cmd.OutOrStdout(), c.format, tree, func(out io.Writer) {
						drawComponent(out, found, all)
					})
				})
		},
	})
	cli.OutputFlag(cmd.Flags(), &c.format)
	return cmd
}

func drawComponent(out io.Writer, c component.Component, all []component.Component) {
	cli.Printf(out, "%s:%s  %s\n", c.Descriptor.Name, c.Descriptor.Version, c.Manifest.Digest)
	t := terminal.NewTable(out)
	t.AppendHeader(table.Row{"RESOURCE", "VERSION", "TYPE", "ACCESS", "DIGEST"})
	for _, r := range c.Descriptor.Resources {
		t.AppendRow(table.Row{r.Name, r.Version, r.Type, accessText(r.Access), digestText(r.Digest)})
	}
	t.Render()
	for _, other := range all[1:] {
		cli.Printf(out, "references %s:%s\n", other.Descriptor.Name, other.Descriptor.Version)
	}
	for _, image := range component.Images(all, false) {
		cli.Printf(out, "image %s\n", image)
	}
	for _, s := range c.Descriptor.Signatures {
		cli.Printf(out, "signed by %s (%s over %s)\n", s.Name, s.Algorithm, s.Digest.NormalisationAlgorithm)
	}
	if len(c.Descriptor.Signatures) == 0 {
		fmt.Fprintln(out, "not signed")
	}
}

func accessText(a ocm.Access) string {
	switch a.Kind() {
	case ocm.AccessLocalBlob:
		return strings.TrimSpace(a.Kind() + " " + a.MediaType)
	case ocm.AccessHelm:
		return a.Kind() + " " + a.HelmRepository + " " + a.HelmChart
	case ocm.AccessOCIBlob:
		return a.Kind() + " " + a.Repository
	}
	return strings.TrimSpace(a.Kind() + " " + a.ImageReference)
}

func digestText(d *ocm.Digest) string {
	if d == nil {
		return ""
	}
	return terminal.ShortDigest(strings.ToLower(strings.ReplaceAll(d.HashAlgorithm, "-", "")) + ":" + d.Value)
}

func newComponentVerify() *cobra.Command {
	c := &componentCommand{}
	return c.add(&cobra.Command{
		Use: "verify NAME:VERSION", Short: "verify a component version against a signature policy",
		Args: cli.Exactly(1, "NAME:VERSION"),
		Long: "verify checks the descriptor, references and contents of a component version against the signature " +
			"policy, as the publisher does\n" +
			"before it uses the version. The exit code is 0 if the policy accepts the version. If the policy refuses " +
			"it, verify prints the\n" +
			"reason and exits with 3.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.components.Policy == "" {
				return cli.Usage(errors.New("--signature-policy is required"))
			}
			return c.withComponent(cmd, args[0],
				func(ctx context.Context, opened *flagset.OpenedComponents, _ *store.Registries, found component.Component) error {
					selection, err := bundle.Select(found.Descriptor)
					if err != nil {
						return err
					}
					for _, r := range selection.Needed() {
						if _, err := opened.Reader.Bytes(ctx, found, r); err != nil {
							return err
						}
					}
					_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s:%s complies with the policy\n", found.Descriptor.Name,
						found.Descriptor.Version)
					return err
				})
		},
	})
}

func newComponentCopy() *cobra.Command {
	c := &componentCommand{}
	var to string
	var replace bool
	cmd := c.add(&cobra.Command{
		Use: "copy NAME:VERSION", Short: "copy a component version and its references to a registry or archive",
		Args: cli.Exactly(1, "NAME:VERSION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				return cli.Usage(errors.New("--to is required"))
			}
			return c.withComponent(cmd, args[0],
				func(ctx context.Context, opened *flagset.OpenedComponents, registries *store.Registries,
					found component.Component) error {
					all, err := opened.Reader.Closure(ctx, found)
					if err != nil {
						return err
					}
					return copyComponents(ctx, cmd.OutOrStdout(), all, to, replace, registries)
				})
		},
	})
	cmd.Flags().
		StringVar(&to, "to", "",
			"destination: registry prefix HOST/PATH, or ctf:PATH for a common transport archive, which is a folder or "+
				"a .tar, .tgz or .tar.gz file")
	cmd.Flags().BoolVar(&replace, "replace", false, "overwrite an existing archive file")
	return cmd
}

// copyComponents copies a component and its references. It writes an archive to a temporary path first, and renames it
// once it is complete.
func copyComponents(
	ctx context.Context, out io.Writer, all []component.Component, to string, replace bool,
	registries *store.Registries,
) error {
	if path, ok := strings.CutPrefix(to, flagset.ArchiveScheme); ok {
		return archiveComponents(ctx, out, all, path, replace)
	}
	place, err := store.Open(to, registries)
	if err != nil {
		return cli.Usage(fmt.Errorf("--to: %w", err))
	}
	for _, c := range all {
		where, err := c.CopyTo(ctx, place)
		if err != nil {
			return err
		}
		cli.Printf(out, "copied %s:%s to %s\n", c.Descriptor.Name, c.Descriptor.Version, where)
	}
	return nil
}

func archiveComponents(ctx context.Context, out io.Writer, all []component.Component, path string, replace bool) error {
	create := archive.Create
	if replace {
		create = archive.Replace
	}
	writer, err := create(path, archive.FormatOf(path))
	if err != nil {
		return err
	}
	for _, c := range all {
		if err := c.CopyInto(ctx, writer.Target, path); err != nil {
			return errors.Join(err, writer.Discard())
		}
	}
	if err := writer.Close(); err != nil {
		return err
	}
	for _, c := range all {
		cli.Printf(out, "copied %s:%s to %s\n", c.Descriptor.Name, c.Descriptor.Version, path)
	}
	return nil
}
