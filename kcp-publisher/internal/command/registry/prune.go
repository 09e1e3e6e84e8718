package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/registryops/prune"
)

type registryPruneFlags struct {
	api               controlplane.Flags
	to, trust, format string
	gone              []string
	sole, dryRun      bool
	minAge            time.Duration
	limit             int
	registry          cli.Registry
}

func newRegistryPrune() *cobra.Command {
	f := &registryPruneFlags{}
	cmd := &cobra.Command{
		Use: "prune", Short: "remove unused data from the registry", Args: cli.Exactly(0, "no arguments"),
		Long: "prune reads the bundles of all runtimes and removes superseded bundles with their signatures, " +
			"unreferenced documents and content,\n" +
			"expired image lists, and with --sole-publisher or --gone the data of deleted runtimes. It requires " +
			"credentials that can delete.\n" +
			"It keeps roots of trust, components and unknown data. The registry's own garbage collection frees " +
			"the space later.",
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.to, "to", "", "registry prefix HOST/PATH that bundles are published to")
	flags.StringVar(&f.trust, "trust", "",
		"root of trust file from kcp-publisher keys init: the oldest version whose keys signed bundles that are still "+
			"in the registry")
	f.api.Add(flags, "the Kymas")
	flags.StringArrayVar(&f.gone, "gone", nil,
		"ID of a deleted runtime that has no Kyma; its data is removed immediately; can be repeated")
	flags.BoolVar(&f.sole, "sole-publisher", false,
		"confirm that no other control plane or publish command writes to the prefix: a runtime without a Kyma "+
			"counts as deleted once its last bundle has expired")
	flags.DurationVar(&f.minAge, "min-age", 30*24*time.Hour,
		"time after which unused data is removed, at least 24h")
	flags.IntVar(&f.limit, "limit", 1000, "maximum number of manifests to remove")
	flags.BoolVar(&f.dryRun, "dry-run", false,
		"show the data that would be removed, without removing or recording anything")
	cli.OutputFlag(flags, &f.format)
	f.registry.AddFlags(flags)
	return cmd
}

type pruneResult struct {
	Repository string   `json:"repository"`
	Tags       []string `json:"tags"`
	Digest     string   `json:"digest"`
	Action     string   `json:"action"`
	Reason     string   `json:"reason"`
}

const minPruneAge = 24 * time.Hour

func (f *registryPruneFlags) run(cmd *cobra.Command) error {
	if err := cli.RequireFlags(cli.Required{Flag: "--to", Given: f.to != ""},
		cli.Required{Flag: "--trust", Given: f.trust != ""}); err != nil {
		return err
	}
	switch {
	case f.minAge < minPruneAge:
		return cli.Usage(fmt.Errorf("--min-age %s: must be at least %s", f.minAge, minPruneAge))
	case f.limit < 1:
		return cli.Usage(fmt.Errorf("--limit %d: must be at least 1", f.limit))
	}
	ctx := cmd.Context()
	place, _, err := f.registry.Open("--to", f.to, store.Access{})
	if err != nil {
		return err
	}
	if store.IsLayout(place) {
		return cli.Usage(fmt.Errorf("--to %s is a folder, must be a registry", f.to))
	}
	source, err := f.source(ctx, place)
	if err != nil {
		return err
	}
	noted, err := prune.ReadNotes(ctx, place)
	if err != nil {
		return err
	}
	inventory, err := prune.Read(ctx, source)
	if err == nil && !f.dryRun {
		inventory, err = prune.Refresh(ctx, source, inventory)
	}
	if err != nil {
		return err
	}
	planned := prune.Decide(inventory, noted, source.Rules)
	for _, reason := range inventory.Unknown {
		cli.Printf(cmd.ErrOrStderr(), "shared data is not removed, because not all of its users are known: %s\n",
			reason)
	}
	for _, runtime := range inventory.Runtimes {
		if runtime.Truncated {
			cli.Printf(cmd.ErrOrStderr(),
				"runtime %s: only its last %d bundles are protected from removal, although more were published "+
					"within %s: find out why its Kyma changes so often\n",
				runtime.ID, len(runtime.Bundles), f.minAge)
		}
	}
	for _, id := range prune.WithoutKyma(inventory, planned) {
		cli.Printf(cmd.ErrOrStderr(),
			"runtime %s has no Kyma in namespace %s, but its data is not removed: if the runtime was deleted, add "+
				"--gone\n", id, f.api.Namespace)
	}
	var removed []bool
	if !f.dryRun {
		var left int
		if left, err = prune.WriteNotes(ctx, place, planned.Noted); err == nil {
			removed, err = prune.Remove(ctx, place, planned)
		}
		if left > 0 {
			cli.Printf(cmd.ErrOrStderr(),
				"%d of %d unused manifests were not recorded, because the record is full: repeat the command once "+
					"older manifests are removed\n", left, len(planned.Noted))
		}
	}
	rows := f.rows(planned, removed)
	return errors.Join(err, cli.Print(cmd.OutOrStdout(), f.format, rows, func(out io.Writer) {
		drawPruned(out, rows, planned, f.dryRun)
	}))
}

func (f *registryPruneFlags) source(ctx context.Context, place store.Store) (prune.Source, error) {
	pinned, err := cli.ReadRoot(f.trust)
	if err != nil {
		return prune.Source{}, err
	}
	newest, refusal, _, err := store.FollowRoot(ctx, place, pinned)
	if err != nil {
		return prune.Source{}, err
	}
	if refusal != nil {
		return prune.Source{}, fmt.Errorf("root of trust version %d: %w", newest.Version+1, refusal)
	}
	kymas, err := f.kymas(ctx)
	if err != nil {
		return prune.Source{}, err
	}
	for _, id := range f.gone {
		if err := trust.CheckRuntimeID(id); err != nil {
			return prune.Source{}, cli.Usage(fmt.Errorf("--gone %s: %w", id, err))
		}
		if _, there := kymas[id]; there {
			return prune.Source{},
				cli.Usage(fmt.Errorf("--gone %s: this runtime still has a Kyma in namespace %s", id, f.api.Namespace))
		}
	}
	return prune.Source{
		Place: place, Root: newest, Former: []trust.Root{pinned}, Kymas: kymas, Gone: f.gone, Sole: f.sole,
		Rules: prune.Rules{Now: time.Now(), MinAge: f.minAge, Limit: f.limit},
	}, nil
}

func (f *registryPruneFlags) kymas(ctx context.Context) (map[string][]digest.Digest, error) {
	api, err := f.api.Connect()
	if err != nil {
		return nil, err
	}
	var list v1beta2.KymaList
	if err := api.List(ctx, &list, client.InNamespace(f.api.Namespace)); err != nil {
		return nil, fmt.Errorf("list Kymas in %s: %w", f.api.Namespace, err)
	}
	if len(list.Items) == 0 {
		return nil,
			fmt.Errorf(
				"no Kymas found in namespace %s: set --namespace to the namespace of the fleet's Kymas; an empty "+
					"fleet is never pruned", f.api.Namespace)
	}
	return publishedBundles(list.Items), nil
}

func publishedBundles(kymas []v1beta2.Kyma) map[string][]digest.Digest {
	all := map[string][]digest.Digest{}
	for i := range kymas {
		var bundles []digest.Digest
		ids := []string{plan.RuntimeID(&kymas[i])}
		if status := kymas[i].Status.Runtime; status != nil {
			if status.ID != "" {
				ids = append(ids, status.ID)
			}
			if status.Published != nil {
				bundles = append(bundles, digest.Digest(status.Published.Digest))
			}
			if status.Observed != nil {
				bundles = append(bundles, digest.Digest(status.Observed.Digest))
			}
			bundles = slices.DeleteFunc(bundles, func(d digest.Digest) bool { return d.Validate() != nil })
		}
		for _, id := range ids {
			all[id] = append(all[id], bundles...)
		}
	}
	return all
}

func (f *registryPruneFlags) rows(planned prune.Plan, removed []bool) []pruneResult {
	rows := []pruneResult{}
	for i, r := range planned.Remove {
		action := "removed"
		if f.dryRun {
			action = "would be removed"
		} else if i >= len(removed) || !removed[i] {
			action = "not removed"
		}
		rows = append(rows, pruneResult{
			Repository: r.Repository, Tags: append([]string{}, r.Tags...), Digest: r.Descriptor.Digest.String(),
			Action: action, Reason: r.Reason,
		})
	}
	for _, w := range planned.Waiting {
		rows = append(rows, pruneResult{
			Repository: w.Repository, Tags: append([]string{}, w.Tags...), Digest: w.Descriptor.Digest.String(),
			Action: "waits",
			Reason: fmt.Sprintf("%s, can be removed after %s", w.Reason,
				w.Since.Add(f.minAge).UTC().Format(time.DateOnly)),
		})
	}
	return rows
}

func drawPruned(out io.Writer, rows []pruneResult, planned prune.Plan, dryRun bool) {
	if len(rows) == 0 && planned.Over == 0 {
		fmt.Fprintln(out, "nothing to remove")
		return
	}
	t := terminal.NewTable(out)
	t.AppendHeader(table.Row{"REPOSITORY", "TAG", "DIGEST", "ACTION", "REASON"})
	for _, row := range rows {
		t.AppendRow(table.Row{
			row.Repository, strings.Join(row.Tags, ", "), terminal.ShortDigest(row.Digest), row.Action, row.Reason,
		})
	}
	t.Render()
	fmt.Fprintln(out, planned)
	if !dryRun && len(planned.Remove) > 0 {
		fmt.Fprintln(out,
			"run the registry's garbage collection in an hour to free the space; until then publishers can detect "+
				"missing data (docs/guides/registry.md)")
	}
}
