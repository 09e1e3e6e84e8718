package command

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
)

// rootValidity is the life of a root of trust.
const rootValidity = 365 * 24 * time.Hour

func keysFlag(flags *pflag.FlagSet, into *string) {
	flags.StringVar(into, "keys", "keys", "folder with the root of trust and the keys")
}

// publisherKeyFlags say where the publisher's key is.
func publisherKeyFlags(flags *pflag.FlagSet, into *keys.Folder) {
	keysFlag(flags, &into.Dir)
	flags.StringVar(&into.PublisherKey, "publisher-key", "", "file or KMS reference (SCHEME://..., through sigstore's KMS plugins) of the key that signs bundles, instead of the folder's publisher.key")
}

func newKeys() *cobra.Command {
	return cli.Group("keys", "creates, shows and changes the fleet's keys",
		newKeysInit(), newKeysShow(), newKeysRotate(), newKeysRevoke(), newKeysRelease(), newKeysFloor(), newKeysSign())
}

func newKeysInit() *cobra.Command {
	var dir, passphrase, format string
	beginning := keys.Beginning{}
	cmd := &cobra.Command{
		Use: "init", Short: "creates a root of trust, the keys that it lists, and a secret for enrollment tokens", Args: cli.Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			folder, err := folderOf(dir, passphrase)
			if err != nil {
				return err
			}
			beginning.Expires = time.Now().Add(rootValidity)
			made, err := folder.Init(beginning)
			if err != nil {
				return err
			}
			return printMade(cmd, format, made)
		},
	}
	keysFlag(cmd.Flags(), &dir)
	cmd.Flags().StringVar(&beginning.Fleet, "fleet", "", "name of the fleet; default: a generated name")
	cmd.Flags().Int64Var(&beginning.Epoch, "epoch", 1, "epoch of the new root; for a fleet that lost its root keys, more than the last one")
	cmd.Flags().IntVar(&beginning.RootKeys, "root-keys", 1, "number of root keys")
	cmd.Flags().IntVar(&beginning.Threshold, "threshold", 1, "number of root keys that must sign a new version of the root of trust")
	passphraseFlag(cmd.Flags(), &passphrase)
	cli.OutputFlag(cmd.Flags(), &format)
	return cmd
}

func passphraseFlag(flags *pflag.FlagSet, into *string) {
	flags.StringVar(into, "passphrase-file", "", "file with the passphrase of the root keys; new ones are encrypted with it")
}

func folderOf(dir, passphraseFile string) (keys.Folder, error) {
	folder := keys.Folder{Dir: dir}
	if passphraseFile == "" {
		return folder, nil
	}
	data, err := os.ReadFile(passphraseFile)
	if err != nil {
		return folder, cli.Usage(fmt.Errorf("--passphrase-file: %w", err))
	}
	folder.Passphrase = []byte(strings.TrimRight(string(data), "\r\n"))
	if len(folder.Passphrase) == 0 {
		return folder, cli.Usage(errors.New("--passphrase-file: is empty"))
	}
	return folder, nil
}

func printMade(cmd *cobra.Command, format string, made []keys.Made) error {
	return cli.Print(cmd.OutOrStdout(), format, made, func(out io.Writer) {
		t := newTable(out)
		t.AppendHeader(table.Row{"FILE", "WHAT", "KEEP IT"})
		for _, f := range made {
			t.AppendRow(table.Row{f.File, f.What, f.Keep})
		}
		t.Render()
	})
}

// changing is a command that makes the next version of the root of trust.
type changing struct {
	dir, passphrase, format string
	rootKeys                []string
	validity                time.Duration
	newEpoch                bool
}

func (c *changing) add(flags *pflag.FlagSet) {
	keysFlag(flags, &c.dir)
	passphraseFlag(flags, &c.passphrase)
	cli.OutputFlag(flags, &c.format)
	flags.StringArrayVar(&c.rootKeys, "root-key", nil, "file of a root key, may be repeated; default: those of the folder")
	flags.DurationVar(&c.validity, "validity", rootValidity, "validity of the new version")
	flags.BoolVar(&c.newEpoch, "new-epoch", false, "start a new epoch: reset sequence numbers and invalidate all earlier bundles")
}

// make changes the root and prints what was written.
func (c *changing) make(cmd *cobra.Command, change func(*keys.Change) error) error {
	folder, err := folderOf(c.dir, c.passphrase)
	if err != nil {
		return err
	}
	next, err := folder.Change(time.Now().Add(c.validity))
	if err != nil {
		return err
	}
	if err := change(next); err != nil {
		return err
	}
	if c.newEpoch {
		next.Epoch()
	}
	if len(c.rootKeys) == 0 {
		c.rootKeys = folder.RootKeyFiles()
	}
	made, err := next.Finish(c.rootKeys)
	if err != nil {
		return err
	}
	return printMade(cmd, c.format, made)
}

func newKeysRotate() *cobra.Command {
	var c changing
	var public, old string
	var dropOld bool
	cmd := &cobra.Command{
		Use: "rotate [publisher|enroll|root]", Short: "replaces a key, or renews the root of trust",
		Long: "Makes the next version of the root of trust. Agents and a running publisher adopt it by themselves.\nWithout a role, only its validity is renewed.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			role := strings.Join(args, "")
			return c.make(cmd, func(change *keys.Change) error {
				switch role {
				case "":
					return nil
				case "enroll":
					return change.Rotate(cmd.Context(), trust.RoleEnroll, public, dropOld)
				case trust.RolePublisher, trust.RoleEnroll:
					return change.Rotate(cmd.Context(), role, public, dropOld)
				case trust.RoleRoot:
					return change.RotateRoot(old)
				}
				return cli.Usage(fmt.Errorf("role %q: want publisher, enroll or root", role))
			})
		},
	}
	c.add(cmd.Flags())
	cmd.Flags().StringVar(&public, "public-key", "", "file or KMS reference of the key to list; default: a new key")
	cmd.Flags().BoolVar(&dropOld, "drop-old", false, "distrust the current key immediately")
	cmd.Flags().StringVar(&old, "old", "", "thumbprint of the root key to replace")
	return cmd
}

func newKeysRevoke() *cobra.Command {
	var c changing
	cmd := &cobra.Command{
		Use: "revoke THUMBPRINT", Short: "revokes a key in every role, for good", Args: cli.Exactly(1, "one thumbprint"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.make(cmd, func(change *keys.Change) error { return change.Revoke(args[0]) })
		},
	}
	c.add(cmd.Flags())
	return cmd
}

func newKeysRelease() *cobra.Command {
	var c changing
	var public string
	var threshold int
	cmd := &cobra.Command{
		Use: "release PREFIX", Short: "requires the signature of a release key on the components whose names have the prefix",
		Args: cli.Exactly(1, "one prefix of component names, '' for all"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if public == "" {
				return cli.Usage(errors.New("--public-key is required"))
			}
			return c.make(cmd, func(change *keys.Change) error { return change.Release(args[0], public, threshold) })
		},
	}
	c.add(cmd.Flags())
	cmd.Flags().StringVar(&public, "public-key", "", "PEM file with the RSA key that signs the components")
	cmd.Flags().IntVar(&threshold, "threshold", 1, "number of the prefix's keys that must have signed")
	return cmd
}

func newKeysFloor() *cobra.Command {
	var c changing
	cmd := &cobra.Command{
		Use: "floor COMPONENT [VERSION]", Short: "sets the minimum version of a component that runtimes install; without a version, removes it",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.make(cmd, func(change *keys.Change) error {
				change.Floor(args[0], strings.Join(args[1:], ""))
				return nil
			})
		},
	}
	c.add(cmd.Flags())
	return cmd
}

func newKeysSign() *cobra.Command {
	var c changing
	cmd := &cobra.Command{
		Use: "sign DRAFT", Short: "signs a draft of the root of trust, and puts it in force when enough keys have signed", Args: cli.Exactly(1, "one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			folder, err := folderOf(c.dir, c.passphrase)
			if err != nil {
				return err
			}
			if len(c.rootKeys) == 0 {
				c.rootKeys = folder.RootKeyFiles()
			}
			made, err := folder.Sign(args[0], c.rootKeys)
			if err != nil {
				return err
			}
			return printMade(cmd, c.format, made)
		},
	}
	keysFlag(cmd.Flags(), &c.dir)
	passphraseFlag(cmd.Flags(), &c.passphrase)
	cli.OutputFlag(cmd.Flags(), &c.format)
	cmd.Flags().StringArrayVar(&c.rootKeys, "root-key", nil, "file of a root key, may be repeated; default: those of the folder")
	return cmd
}

// shownRoot is what there is to say about a root of trust.
type shownRoot struct {
	Version    int64             `json:"version"`
	Epoch      int64             `json:"epoch"`
	Fleet      string            `json:"fleet,omitempty"`
	Expires    time.Time         `json:"expires"`
	Root       []string          `json:"root"`
	Threshold  int               `json:"threshold"`
	Publishers []string          `json:"publishers"`
	Enrollers  []string          `json:"enrollers,omitempty"`
	Releases   []string          `json:"releases,omitempty"`
	Floors     map[string]string `json:"floors,omitempty"`
	Revoked    []string          `json:"revoked,omitempty"`
}

func newKeysShow() *cobra.Command {
	var dir, format string
	cmd := &cobra.Command{
		Use: "show", Short: "shows the root of trust", Args: cli.Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := keys.Folder{Dir: dir}.Root()
			if err != nil {
				return err
			}
			shown := shownRoot{
				Version: root.Version, Epoch: root.Epoch, Fleet: root.Fleet, Expires: root.Expires,
				Publishers: root.Publishers(), Enrollers: root.Enrollers(), Releases: root.Releases(), Floors: root.Floors, Revoked: root.Revoked,
			}
			shown.Root, shown.Threshold = root.Signers()
			return cli.Print(cmd.OutOrStdout(), format, shown, shown.draw)
		},
	}
	keysFlag(cmd.Flags(), &dir)
	cli.OutputFlag(cmd.Flags(), &format)
	return cmd
}

func (s shownRoot) draw(out io.Writer) {
	t := newTable(out)
	t.AppendHeader(table.Row{"VERSION", "EPOCH", "FLEET", "EXPIRES", "PUBLISHER KEYS"})
	t.AppendRow(table.Row{s.Version, s.Epoch, s.Fleet, s.Expires.Format(time.DateOnly), s.Publishers})
	t.Render()
	fmt.Fprintf(out, "\nroot keys (%d of %d): %s\n", s.Threshold, len(s.Root), strings.Join(s.Root, " "))
	if len(s.Enrollers) > 0 {
		fmt.Fprintf(out, "enrollment keys: %s\n", strings.Join(s.Enrollers, " "))
	}
	for _, prefix := range s.Releases {
		fmt.Fprintf(out, "release keys required: components %q\n", prefix+"*")
	}
	for _, component := range slices.Sorted(maps.Keys(s.Floors)) {
		fmt.Fprintf(out, "minimum version: %s %s\n", component, s.Floors[component])
	}
	if len(s.Revoked) > 0 {
		fmt.Fprintf(out, "revoked: %s\n", strings.Join(s.Revoked, " "))
	}
}
