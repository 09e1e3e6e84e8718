// Package check implements the command that checks the prerequisites of a control plane.
package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/charts"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/internal/preflight"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/keyfolder"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
)

// rightsDir is the folder with the RBAC files in the publisher's chart.
const rightsDir = "kcp-publisher/rbac"

type checkFlags struct {
	api                       controlplane.Flags
	keys                      keys.Folder
	location, format, secrets string
	rights                    []string
	write                     bool
	registry                  cli.Registry
}

// New returns the command check.
func New() *cobra.Command {
	f := &checkFlags{}
	cmd := &cobra.Command{
		Use: "check", Short: "check keys, permissions, CRDs, registry and clock before `run`",
		Args: cli.Exactly(0, "no arguments"),
		Long: "check verifies the requirements of `run`: keys in the root of trust, the permissions of the chart's RBAC, " +
			"complete CRDs, a reachable registry,\n" +
			"and a correct clock. It changes nothing, except that --registry-write pushes an empty blob.\n\n" +
			"It checks the permissions of the current user. To check the publisher's permissions, add --as " +
			"system:serviceaccount:kcp-system:kcp-publisher.\n\n" +
			"The exit code is 1 if a check failed, and 0 otherwise. Warnings do not affect it.",
		RunE: func(cmd *cobra.Command, _ []string) error { return f.runCheck(cmd) },
	}
	flags := cmd.Flags()
	f.api.Add(flags, "Kymas, ModuleTemplates and ModuleReleaseMetas")
	keyfolder.AddPublisherFlags(flags, &f.keys)
	flags.StringVar(&f.location, "location", "", "registry prefix HOST/PATH that bundles are published to")
	flags.StringSliceVar(&f.rights, "rights", []string{"publisher", "metrics"},
		"parts of the chart's RBAC to check, separated by commas: "+strings.Join(listParts(charts.PublisherRBAC), ", "))
	flags.StringVar(&f.secrets, "secrets-namespace", "kcp-secrets",
		"namespace of the Secrets for runtimes, checked with --rights=secrets")
	flags.BoolVar(&f.write, "registry-write", false,
		"also push an empty blob to check the permission to write to the registry")
	cli.OutputFlag(flags, &f.format)
	f.registry.AddFlags(flags)
	return cmd
}

// listParts returns the names of the RBAC files in the chart, without .yaml.
func listParts(files fs.FS) []string {
	paths, _ := fs.Glob(files, rightsDir+"/*.yaml") // only an invalid pattern is an error
	for i, path := range paths {
		paths[i] = strings.TrimSuffix(filepath.Base(path), ".yaml")
	}
	return paths
}

func (f *checkFlags) runCheck(cmd *cobra.Command) error {
	if f.location == "" {
		return cli.Usage(errors.New("--location is required"))
	}
	for _, part := range f.rights {
		if known := listParts(charts.PublisherRBAC); !slices.Contains(known, part) {
			return cli.Usage(fmt.Errorf("--rights %s: must be one of %s", part, strings.Join(known, ", ")))
		}
	}
	ctx := cmd.Context()
	root, findings := checkKeyFolder(ctx, f.keys, time.Now())
	findings = append(findings, f.checkCluster(ctx)...)
	inRegistry, err := f.checkRegistry(ctx, root)
	if err != nil {
		return err
	}
	findings = append(findings, inRegistry...)
	return errors.Join(preflight.Summarize(findings),
		cli.Print(cmd.OutOrStdout(), f.format, findings, func(out io.Writer) { preflight.Draw(out, findings) }))
}

func checkKeyFolder(ctx context.Context, folder keys.Folder, now time.Time) (*trust.Root, []preflight.Finding) {
	root, all, err := folder.Keys(ctx, now)
	if err != nil {
		return nil, []preflight.Finding{
			preflight.Fail("keys", err.Error(), "set --keys to the folder that `kcp-publisher keys init` created"),
		}
	}
	findings := []preflight.Finding{
		preflight.Root(filepath.Join(folder.Dir, keys.FileRoot), root,
			"sign a newer version with `kcp-publisher keys rotate`", now),
	}
	if _, err := folder.Load(ctx); err != nil {
		findings = append(findings,
			preflight.Fail("keys", err.Error(),
				"restore the key folder from its latest backup"))
	} else {
		findings = append(findings, signingKeys(all)...)
	}
	if _, err := folder.TokenSecrets(); err != nil {
		findings = append(findings,
			preflight.Fail("key token", err.Error(),
				"add "+keys.FileTokenKey+" to the key folder: it verifies enrollment tokens"))
	} else {
		findings = append(findings, preflight.Pass("key token", "is readable"))
	}
	for _, name := range []string{keys.FilePublisherKey, keys.FileEnrollKey, keys.FileTokenKey} {
		path := filepath.Join(folder.Dir, name)
		if info, err := os.Stat(path); err == nil {
			findings = append(findings, preflight.KeyFile(path, info.Mode()))
		}
	}
	return &root, append(findings, rootKeys(folder)...)
}

// rootKeys returns a warning for each root key in the key folder, because root keys must be kept on a separate machine.
func rootKeys(folder keys.Folder) []preflight.Finding {
	var findings []preflight.Finding
	for _, path := range folder.RootKeyFiles() {
		findings = append(findings,
			preflight.Warn("file "+path, "a root key is in the publisher's key folder",
				"move it offline, out of the publisher's reach: its holder controls the trust of all runtimes"))
	}
	return findings
}

func signingKeys(all []keys.Key) []preflight.Finding {
	var findings []preflight.Finding
	for _, role := range []string{trust.RolePublisher, trust.RoleEnroll} {
		check := "key " + keys.RoleName(role)
		at := slices.IndexFunc(all, func(k keys.Key) bool {
			return k.Role == role && slices.Contains([]keys.State{keys.InUse, keys.NotListed, keys.Expired}, k.State)
		})
		switch {
		case at < 0 && role == trust.RoleEnroll:
			findings = append(findings,
				preflight.Warn(check, "not found: agents get no certificates",
					"add "+keys.FileEnrollKey+" to the key folder"))
		case at < 0:
			findings = append(findings,
				preflight.Fail(check, "is not part of the root of trust", "see `kcp-publisher keys show`"))
		case all[at].State == keys.NotListed:
			findings = append(findings,
				preflight.Fail(check, trust.ShortThumbprint(all[at].Thumbprint)+
					" is not listed in the root of trust: every agent refuses its signatures",
					"restore root.json and the keys together from the latest backup"))
		default:
			findings = append(findings,
				preflight.Pass(check, trust.ShortThumbprint(all[at].Thumbprint)+" is listed in the root of trust"))
		}
	}
	return findings
}

func (f *checkFlags) checkCluster(ctx context.Context) []preflight.Finding {
	config, err := f.api.Cluster.Config()
	if err != nil {
		return []preflight.Finding{preflight.Fail("API server of the control plane", err.Error(), "set --kubeconfig")}
	}
	api, err := preflight.Connect(config, "the control plane", preflight.NewTimes(time.Now))
	if err != nil {
		return []preflight.Finding{preflight.Fail("API server of the control plane", err.Error(), "")}
	}
	findings, answers := api.CheckReachable(ctx)
	if !answers {
		return findings
	}
	namespaces := map[string]string{controlplane.DefaultNamespace: f.api.Namespace, "kcp-secrets": f.secrets}
	findings = append(findings,
		api.CheckRights(ctx, charts.PublisherRBAC, rightsDir, f.rights, namespaces, func(file string) string {
			return "the chart grants these permissions; without the chart, apply charts/" + file
		})...)
	return append(findings, api.Definitions(ctx, charts.PublisherCRDs, "kcp-publisher/files/crds", preflight.Failed,
		"upgrade the chart, or apply charts/kcp-publisher/files/crds from this version")...)
}

// checkRegistry checks read access to the registry and, with --registry-write, write access.
func (f *checkFlags) checkRegistry(ctx context.Context, root *trust.Root) ([]preflight.Finding, error) {
	times := preflight.NewTimes(time.Now)
	place, _, err := f.registry.Open("--location", f.location, store.Access{NoRetry: true, Observe: times.Wrap})
	if err != nil {
		return nil, err
	}
	if err := store.Ping(ctx, place); err != nil {
		return []preflight.Finding{preflight.Registry("registry", f.location, "", err)}, nil
	}
	findings := []preflight.Finding{preflight.Pass("registry", f.location+" is reachable")}
	if !store.IsLayout(place) {
		ahead, known := times.Ahead()
		findings = append(findings, preflight.Clock("the registry", ahead, known))
	}
	if root != nil {
		findings = append(findings, checkPublishedRoot(ctx, place, *root))
	}
	if !f.write {
		return findings, nil
	}
	repository, err := place.Repository(ctx, bundle.DocumentsRepository)
	if err == nil {
		err = store.PushBlob(ctx, repository, bundle.EmptyBlob())
	}
	return append(findings, preflight.Registry("write to the registry", place.String(), "pushed an empty blob", err)),
		nil
}

// checkPublishedRoot compares the root of trust in the registry with the one in the key folder. If the root in the key
// folder is older than the one in the registry, agents refuse the publisher's bundles, because an agent never goes back
// to an older root.
func checkPublishedRoot(ctx context.Context, place store.Store, root trust.Root) preflight.Finding {
	const check = "read from the registry"
	newest, refused, _, err := store.FollowRoot(ctx, place, root)
	switch {
	case err != nil:
		return preflight.Registry(check, place.String(), "", err)
	case refused != nil:
		return preflight.Fail(check,
			fmt.Sprintf("root of trust version %d in the registry does not follow version %d in the key folder: %s",
				root.Version+1, root.Version, refused.Detail),
			"the keys or the registry belong to another fleet: check --keys and --location")
	case newest.Version > root.Version:
		return preflight.Fail(check,
			fmt.Sprintf("the registry has root of trust version %d, but the key folder has version %d", newest.Version,
				root.Version),
			"the key folder is from an old backup: restore the latest backup")
	}
	there, err := store.HasRoot(ctx, place, root)
	switch {
	case err != nil:
		return preflight.Registry(check, place.String(), "", err)
	case !there:
		return preflight.Warn(check,
			fmt.Sprintf("the registry has no root of trust version %d: the location may belong to another fleet",
				root.Version),
			"the publisher pushes it when it starts; if it has run before, check --location")
	}
	return preflight.Pass(check,
		fmt.Sprintf("the registry has root of trust version %d and no newer one", root.Version))
}
