// Package enrollment implements the commands that enroll runtimes, revoke their keys, and move them to another control
// plane.
package enrollment

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/keyfolder"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/selection"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
)

var objectUID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

type enrollFlags struct {
	selection.Targets
	dir, location, notifications, owner, uid, output string
	validity                                         time.Duration
	registry                                         cli.Registry
	password, replace                                bool
	generation                                       int
}

// enrolledRuntime is a runtime and its Kyma. The runtime's enrollment token is valid only for this Kyma.
type enrolledRuntime struct {
	id   string
	kyma trust.Kyma
}

// NewEnroll returns the command enroll.
func NewEnroll() *cobra.Command {
	f := &enrollFlags{}
	cmd := &cobra.Command{
		Use:   "enroll [RUNTIME-ID]...",
		Short: "print the bootstrap Secret for a runtime's agent, or write the Secrets for several runtimes",
		Long: "enroll prints a Secret with a token that allows the runtime's agent to register its key. The token is " +
			"valid for one Kyma, by default\n" +
			controlplane.DefaultNamespace +
			"/RUNTIME-ID. If several Kymas have the same runtime ID, the newest token that the agent used determines " +
			"the runtime's Kyma.\n" +
			"Use --replace for a runtime of another control plane: its agent discards its former root of trust and " +
			"bundle, and uninstalls nothing.\n" +
			"To enroll several runtimes, set --output-dir: enroll writes one file per runtime. --selector, --health " +
			"and --all select runtimes\n" +
			"in the control plane.",
		Example: "  kcp-publisher enroll berlin --keys keys --location registry.example/fleet | kubectl --context " +
			"berlin apply -f -\n" +
			"  kcp-publisher enroll berlin --kyma kcp-system/berlin-2 --replace --keys keys --location " +
			"registry.example/fleet\n" +
			"  kcp-publisher enroll --health NeverReported --output-dir secrets --keys keys --location " +
			"registry.example/fleet",
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.Add(cmd)
	cmd.Args = func(_ *cobra.Command, args []string) error { return f.check(args) }
	flags := cmd.Flags()
	flags.Lookup("dry-run").Usage = "list the selected runtimes and write nothing"
	flags.Lookup("yes").Usage = fmt.Sprintf("enroll more than %d runtimes without asking", selection.MaxUnconfirmed)
	flags.StringVar(&f.output, "output-dir", "",
		"folder for one file per runtime, RUNTIME-ID.yaml; required for several runtimes")
	keyfolder.AddFlag(flags, &f.dir)
	flags.StringVar(&f.location, "location", "", "registry prefix HOST/PATH that the runtime pulls from")
	flags.StringVar(&f.owner, "kyma", "",
		"Kyma that the token is valid for, as [NAMESPACE/]NAME; default: "+controlplane.DefaultNamespace+"/RUNTIME-ID")
	flags.StringVar(&f.uid, "kyma-uid", "", "UID of the Kyma; if set, the token is valid only for this object")
	flags.BoolVar(&f.replace, "replace", false,
		"replace the runtime's former control plane: its agent discards the former root of trust")
	flags.DurationVar(&f.validity, "token-validity", 24*time.Hour, "validity period of the enrollment token")
	f.registry.AddConfigFlag(flags,
		"docker config.json with the agent's own credentials; never use the publisher's credentials")
	flags.BoolVar(&f.password, "registry-password", false,
		"include the agent's password for the registry's token service, derived from the key folder")
	flags.IntVar(&f.generation, "registry-password-generation", 1,
		"generation of the registry password; a higher generation in the token service's --generations revokes "+
			"earlier passwords")
	flags.StringVar(&f.notifications, "notifications-url", "",
		"URL of the publisher's notification endpoint, https://HOST"+bundle.NotificationsPath+
			"; also includes the agent's password for HOST, derived from the key folder")
	f.registry.AddCAFlag(flags)
	cli.RequireValues(flags, "kyma", "kyma-uid")
	return cmd
}

func (f *enrollFlags) check(args []string) error {
	if err := f.Check(args); err != nil {
		return err
	}
	one := len(args) == 1
	switch {
	case f.location == "":
		return cli.Usage(errors.New("--location is required: the registry prefix that the runtime pulls from"))
	case f.validity <= 0:
		return cli.Usage(fmt.Errorf("--token-validity %s: must be more than 0", f.validity))
	case !one && (f.owner != "" || f.uid != ""):
		return cli.Usage(errors.New("--kyma and --kyma-uid require exactly one runtime ID"))
	case !one && f.output == "" && !f.DryRun:
		return cli.Usage(errors.New(
			"--output-dir is required to enroll several runtimes"))
	}
	return nil
}

func (f *enrollFlags) run(cmd *cobra.Command, args []string) error {
	all, err := f.selectRuntimes(cmd, args)
	if err != nil {
		return err
	}
	// The agent would report an invalid location only in its log.
	if _, _, err := f.registry.Open("--location", f.location, store.Access{}); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if f.DryRun {
		for _, one := range all {
			cli.Printf(out, "runtime %s of Kyma %s: enroll (dry run)\n", one.id, one.kyma)
		}
		cli.Printf(out, "%s selected, nothing is written\n", terminal.Pluralize(len(all), "runtime"))
		return nil
	}
	if f.output == "" {
		manifest, err := f.newSecret(all[0])
		if err != nil {
			return err
		}
		_, err = cli.Raw(out).Write(manifest)
		return err
	}
	if len(all) > selection.MaxUnconfirmed {
		if err := terminal.Confirm(cmd, f.Yes, "enroll "+terminal.Pluralize(len(all), "runtime")); err != nil {
			return err
		}
	}
	for _, one := range all {
		if path := f.path(one); exists(path) {
			return fmt.Errorf("runtime %s: %w", one.id, existingFile(path))
		}
	}
	if err := os.MkdirAll(f.output, 0o700); err != nil {
		return err
	}
	for _, one := range all {
		manifest, err := f.newSecret(one)
		if err != nil {
			return fmt.Errorf("runtime %s: %w", one.id, err)
		}
		path := f.path(one)
		if err := writeNew(path, manifest); err != nil {
			return fmt.Errorf("runtime %s: %w", one.id, err)
		}
		cli.Printf(out, "runtime %s: wrote %s\n", one.id, path)
	}
	cli.Printf(out, "%s enrolled; the files contain secrets: delete the files after use\n", terminal.Pluralize(len(all),
		"runtime"))
	return nil
}

func (f *enrollFlags) path(one enrolledRuntime) string {
	return filepath.Join(f.output, one.id+".yaml")
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func existingFile(path string) error {
	return fmt.Errorf("%s already exists: delete it or choose another --output-dir", path)
}

func writeNew(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return existingFile(path)
	}
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Close())
}

// selectRuntimes returns the runtimes to enroll. It does not read the control plane for runtimes that args name,
// because their Kymas might not exist yet.
func (f *enrollFlags) selectRuntimes(cmd *cobra.Command, args []string) ([]enrolledRuntime, error) {
	var all []enrolledRuntime
	for _, id := range slices.Compact(slices.Sorted(slices.Values(args))) {
		if err := trust.CheckRuntimeID(id); err != nil {
			return nil, cli.Usage(err)
		}
		kyma, err := trust.ParseKyma(cmp.Or(f.owner, f.Namespace+"/"+id))
		if err != nil {
			return nil, cli.Usage(fmt.Errorf("--kyma: %w", err))
		}
		kyma.UID = f.uid
		if err := kyma.Check(); err != nil {
			return nil, cli.Usage(fmt.Errorf("--kyma-uid: %w", err))
		}
		if f.uid != "" && !objectUID.MatchString(f.uid) {
			return nil, cli.Usage(fmt.Errorf("--kyma-uid %q: must be the UID of the Kyma: kubectl get kyma %s -n %s -o "+
				"jsonpath={.metadata.uid}", bundle.Bounded(f.uid, bundle.MaxVersionBytes), kyma.Name, kyma.Namespace))
		}
		all = append(all, enrolledRuntime{id, kyma})
	}
	if len(args) > 0 {
		return all, nil
	}
	api, err := f.Connect()
	if err != nil {
		return nil, err
	}
	found, err := f.FindTargets(cmd.Context(), api, nil, time.Now())
	if err != nil {
		return nil, err
	}
	kymas := map[string]trust.Kyma{}
	for _, one := range found {
		if err := trust.CheckRuntimeID(one.ID); err != nil {
			return nil, err
		}
		kyma := trust.Kyma{Namespace: one.Kyma.Namespace, Name: one.Kyma.Name}
		if other, known := kymas[one.ID]; known {
			return nil, fmt.Errorf("runtime %s: Kymas %s and %s have this runtime ID: enroll the runtime's Kyma with "+
				"`enroll %s --kyma NAMESPACE/NAME`, and select the other runtimes with --selector", one.ID, other, kyma,
				one.ID)
		}
		kymas[one.ID] = kyma
		all = append(all, enrolledRuntime{one.ID, kyma})
	}
	return all, nil
}

func (f *enrollFlags) newSecret(one enrolledRuntime) ([]byte, error) {
	root, err := keys.Folder{Dir: f.dir}.Root()
	if err != nil {
		return nil, err
	}
	if !time.Now().Before(root.Expires) {
		return nil, fmt.Errorf("the root of trust, version %d, expired at %s: agents accept no bundles with it; renew it "+
			"with `kcp-publisher keys rotate --keys %s`", root.Version, root.Expires.UTC().Format(time.RFC3339), f.dir)
	}
	secret, err := keys.Folder{Dir: f.dir}.TokenSecret()
	if err != nil {
		return nil, err
	}
	token, err := secret.IssueFor(one.kyma, one.id, time.Now().Add(f.validity))
	if err != nil {
		return nil, err
	}
	access, err := f.registry.Access(store.Access{})
	if err != nil {
		return nil, err
	}
	if f.password {
		if access.DockerConfig, err = keyfolder.RegistryCredentials(access.DockerConfig, f.dir, f.location, one.id,
			f.generation); err != nil {
			return nil, err
		}
	}
	if f.notifications != "" {
		if access.DockerConfig, err = keyfolder.NotificationCredentials(access.DockerConfig, f.dir, f.notifications, one.id,
			f.generation); err != nil {
			return nil, err
		}
	}
	// `kubectl apply` keeps a field of an earlier enrollment if stringData omits it. Credentials and settings can stay,
	// but an earlier owner or --replace must not, so these fields are empty instead.
	data := map[string]string{
		"root.json": string(root.Raw),
		"location":  f.location,
		"runtime":   one.id,
		"token":     token.String(),
		"kyma":      one.kyma.Namespace + "/" + one.kyma.Name,
		"kymaUID":   one.kyma.UID,
		"replace":   "",
	}
	if f.replace {
		data["replace"] = v1beta2.True
	}
	if f.notifications != "" {
		data["notifications"] = f.notifications
	}
	for field, value := range map[string][]byte{".dockerconfigjson": access.DockerConfig, "ca.crt": access.CA} {
		if len(value) > 0 {
			data[field] = string(value)
		}
	}
	return yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
		"metadata":   map[string]any{"name": "skr-agent-bootstrap", "namespace": v1beta2.RuntimeNamespace},
		"stringData": data,
	})
}
