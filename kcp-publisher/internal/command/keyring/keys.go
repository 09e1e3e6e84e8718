// Package keyring implements the commands that create, rotate, revoke and show keys.
package keyring

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/keyfolder"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
)

const (
	rootValidity = 365 * 24 * time.Hour
	// shortRootValidity is the remaining validity period at which the publisher starts to warn. A new root of trust
	// with a shorter validity period is probably a mistake.
	shortRootValidity = 30 * 24 * time.Hour
)

// New returns the command keys.
func New() *cobra.Command {
	return cli.Group("keys", "create, show and change the fleet's keys",
		newKeysInit(), newKeysShow(), newKeysRotate(), newKeysRevoke(), newKeysRelease(), newKeysFloor(), newKeysSign())
}

func newKeysInit() *cobra.Command {
	var dir, passphrase, format string
	beginning := keys.InitOptions{}
	cmd := &cobra.Command{
		Use: "init", Short: "create a root of trust, its keys, and a secret for enrollment tokens",
		Args: cli.Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			folder, err := openFolder(dir, passphrase)
			if err != nil {
				return err
			}
			beginning.Expires = time.Now().Add(rootValidity)
			made, err := folder.Init(beginning)
			if err != nil {
				return err
			}
			return keyfolder.PrintWritten(cmd, format, made)
		},
	}
	keyfolder.AddFlag(cmd.Flags(), &dir)
	cmd.Flags().StringVar(&beginning.Fleet, "fleet", "", "name of the fleet; default: a generated name")
	cmd.Flags().
		Int64Var(&beginning.Epoch, "epoch", 1,
			"epoch of the new root; must be higher than the previous epoch if the fleet lost its root keys")
	cmd.Flags().IntVar(&beginning.RootKeys, "root-keys", 1, "number of root keys")
	cmd.Flags().IntVar(&beginning.Threshold, "threshold", 1,
		"number of root keys that must sign a new version of the root of trust")
	passphraseFlag(cmd.Flags(), &passphrase)
	cli.OutputFlag(cmd.Flags(), &format)
	return cmd
}

func passphraseFlag(flags *pflag.FlagSet, into *string) {
	flags.StringVar(into, "passphrase-file", "",
		"file with the passphrase of the root keys; it also encrypts new root keys")
}

func openFolder(dir, passphraseFile string) (keys.Folder, error) {
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
		return folder, cli.Usage(errors.New("--passphrase-file: the file is empty"))
	}
	return folder, nil
}

type rootChange struct {
	folder             keys.Folder
	passphrase, format string
	rootKeys           []string
	validity           time.Duration
	newEpoch           bool
}

func (c *rootChange) add(flags *pflag.FlagSet) {
	keyfolder.AddPublisherFlags(flags, &c.folder)
	passphraseFlag(flags, &c.passphrase)
	cli.OutputFlag(flags, &c.format)
	flags.StringArrayVar(&c.rootKeys, "root-key", nil,
		"file of a root key; can be repeated; default: the root keys in the folder")
	flags.DurationVar(&c.validity, "validity", rootValidity,
		"validity period of the new version of the root of trust")
	flags.BoolVar(&c.newEpoch, "new-epoch", false,
		"start a new epoch: reset sequence numbers and invalidate all earlier bundles")
}

func (c *rootChange) open() error {
	opened, err := openFolder(c.folder.Dir, c.passphrase)
	c.folder.Passphrase = opened.Passphrase
	return err
}

func (c *rootChange) makeChange(cmd *cobra.Command, change func(*keys.Change) error) error {
	if c.validity <= 0 {
		return cli.Usage(fmt.Errorf("--validity %s: must be more than 0", c.validity))
	}
	if err := c.open(); err != nil {
		return err
	}
	var made []keys.WrittenFile
	err := c.folder.WithLock(cmd.Context(), func(folder keys.Folder) error {
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
		made, err = next.Finish(c.rootKeys)
		return err
	})
	if err != nil {
		return err
	}
	if c.validity < shortRootValidity {
		cli.Printf(cmd.ErrOrStderr(), "warning: the new root of trust expires in %s: from then on, agents accept no "+
			"bundles\n", c.validity)
	}
	return keyfolder.PrintWritten(cmd, c.format, made)
}

type keyRotation struct {
	rootChange
	public, old     string
	dropOld, revoke bool
}

func newKeysRotate() *cobra.Command {
	var r keyRotation
	cmd := &cobra.Command{
		Use: "rotate [publisher|enroll|root|token]", Short: "replace a key, or renew the root of trust",
		Long: "rotate creates the next version of the root of trust. Agents and a running publisher adopt it " +
			"automatically.\nWithout a role, it only renews the validity period.\n" +
			"The publisher or enrollment key in use stays accepted until the next rotation. Keys that are removed " +
			"from their role are revoked.\n" +
			"`rotate token` replaces token.key, which is not part of the root of trust. Tokens and registry " +
			"passwords of the replaced\nkey work until the next rotation.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.Usage(fmt.Errorf("expected at most one role, got %d arguments", len(args)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(cmd, strings.Join(args, "")) },
	}
	r.add(cmd.Flags())
	cmd.Flags().StringVar(&r.public, "public-key", "",
		"file or KMS reference for the new key; default: a generated key")
	cmd.Flags().BoolVar(&r.dropOld, "drop-old", false,
		"distrust the replaced key immediately; default: it is accepted until the next rotation")
	cmd.Flags().
		BoolVar(&r.revoke, "revoke", true,
			"revoke the keys that are removed from their role; with --revoke=false, the publisher still recognizes "+
				"bundles that they signed")
	cmd.Flags().StringVar(&r.old, "old", "",
		"with root: thumbprint of the root key to replace; required if there are several root keys")
	return cmd
}

func (r *keyRotation) run(cmd *cobra.Command, role string) error {
	switch role {
	case "enroll":
		role = trust.RoleEnroll
	case "", trust.RolePublisher, trust.RoleRoot:
	case keys.RoleToken:
		return r.token(cmd)
	default:
		return cli.Usage(fmt.Errorf("role %q: must be publisher, enroll, root or token", role))
	}
	return r.makeChange(cmd, func(change *keys.Change) error {
		if !r.revoke {
			change.LeaveUnrevoked()
		}
		switch role {
		case "":
			return nil
		case trust.RoleRoot:
			return change.RotateRoot(r.old)
		}
		return change.Rotate(cmd.Context(), role, r.public, r.dropOld)
	})
}

func (r *keyRotation) token(cmd *cobra.Command) error {
	for _, flag := range []string{"public-key", "publisher-key", "old", "revoke", "root-key", "validity", "new-epoch"} {
		if cmd.Flags().Changed(flag) {
			return cli.Usage(
				fmt.Errorf("--%s does not apply: token.key is not part of the root of trust; only set --drop-old",
					flag))
		}
	}
	if err := r.open(); err != nil {
		return err
	}
	made, err := r.folder.RotateToken(cmd.Context(), r.dropOld)
	if err != nil {
		return err
	}
	return keyfolder.PrintWritten(cmd, r.format, made)
}

func newKeysRevoke() *cobra.Command {
	var c rootChange
	var yes, unlisted bool
	cmd := &cobra.Command{
		Use: "revoke KEY", Short: "revoke a key permanently in every role", Args: cli.Exactly(1, "one thumbprint"),
		Long: "revoke takes the thumbprint of a key, or its ID in root.json, as `keys show` prints them. A " +
			"revocation cannot be undone.\n" +
			"To replace a key in use, run `keys rotate ROLE --drop-old`, which revokes the key and creates a new one.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.open(); err != nil {
				return err
			}
			thumbprint, err := findRevocable(c.folder, args[0], unlisted)
			if err != nil {
				return err
			}
			root, err := c.folder.Root()
			if err != nil {
				return err
			}
			if root.IsRevoked(thumbprint) {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "key %s is already revoked: nothing was changed\n", thumbprint)
				return err
			}
			if err := confirmRevocation(cmd, c.folder, thumbprint, yes); err != nil {
				return err
			}
			return c.makeChange(cmd, func(change *keys.Change) error { return change.Revoke(thumbprint) })
		},
	}
	cli.AllowEmptyArguments(cmd) // the error lists the keys
	c.add(cmd.Flags())
	cmd.Flags().BoolVar(&yes, "yes", false, "revoke a key that is in use without asking")
	cmd.Flags().
		BoolVar(&unlisted, "unlisted", false,
			"revoke a key outside the root of trust by its thumbprint, such as an agent key")
	return cmd
}

// findRevocable returns the thumbprint of the key that name identifies. If unlisted is false, a version of the root of
// trust must list the key.
func findRevocable(folder keys.Folder, name string, unlisted bool) (string, error) {
	thumbprint, err := folder.Find(name)
	var unknown *keys.UnknownKeyError
	switch {
	case errors.As(err, &unknown) && unlisted:
		if err := keys.CheckThumbprint(name); err != nil {
			return "", cli.Usage(err)
		}
		return name, nil
	case errors.As(err, &unknown):
		return "", cli.Usage(err)
	}
	return thumbprint, err
}

func confirmRevocation(cmd *cobra.Command, folder keys.Folder, thumbprint string, yes bool) error {
	role, err := folder.SigningRole(cmd.Context(), thumbprint)
	if err != nil || role == "" || yes {
		return err
	}
	way := "keys rotate " + role + " --drop-old"
	switch {
	case role == trust.RoleEnroll:
		way = "keys rotate enroll --drop-old"
	case role == trust.RoleRoot:
		way = "keys rotate root --old " + thumbprint
	case strings.HasPrefix(role, trust.RoleRelease):
		way = "keys release"
	}
	question := fmt.Sprintf(
		"key %s is in use as %s key: agents will refuse its signatures once the root is published; use `%s` to "+
			"replace it", thumbprint, role, way)
	return terminal.Confirm(cmd, yes, question+"; revoke it")
}

func newKeysRelease() *cobra.Command {
	var c rootChange
	var public string
	var threshold int
	cmd := &cobra.Command{
		Use: "release PREFIX", Short: "require a release key's signature on components whose names start with PREFIX",
		Args: cli.Exactly(1, "one prefix of component names, '' for all"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if public == "" {
				return cli.Usage(errors.New("--public-key is required"))
			}
			switch isSet := cmd.Flags().Changed("threshold"); {
			case isSet && threshold < 1:
				return cli.Usage(fmt.Errorf("--threshold: %d, must be at least 1", threshold))
			case !isSet:
				threshold = 0 // keep the number of an existing prefix
			}
			return c.makeChange(cmd, func(change *keys.Change) error { return change.Release(args[0], public, threshold) })
		},
	}
	cli.AllowEmptyArguments(cmd)
	c.add(cmd.Flags())
	cmd.Flags().StringVar(&public, "public-key", "", "PEM file with the public RSA key to add as a release key")
	cmd.Flags().IntVar(&threshold, "threshold", 1, "number of the prefix's release keys that must sign each component; "+
		"without this flag, a prefix with release keys keeps its number")
	return cmd
}

func newKeysFloor() *cobra.Command {
	var c rootChange
	cmd := &cobra.Command{
		Use:   "floor COMPONENT [VERSION]",
		Short: "set or remove the minimum component version that runtimes install",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return cli.Usage(fmt.Errorf("expected a component and optionally a version, got %d arguments", len(args)))
			}
			if err := ocm.CheckName(args[0]); err != nil {
				return cli.Usage(err)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.makeChange(cmd, func(change *keys.Change) error {
				return change.Floor(args[0], strings.Join(args[1:], ""))
			})
		},
	}
	c.add(cmd.Flags())
	return cmd
}

func newKeysSign() *cobra.Command {
	var c rootChange
	cmd := &cobra.Command{
		Use: "sign DRAFT", Short: "sign a draft of the root of trust, and activate it once enough keys have signed",
		Args: cli.Exactly(1, "one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.open(); err != nil {
				return err
			}
			var made []keys.WrittenFile
			err := c.folder.WithLock(cmd.Context(), func(folder keys.Folder) (err error) {
				if len(c.rootKeys) == 0 {
					c.rootKeys = folder.RootKeyFiles()
				}
				made, err = folder.Sign(args[0], c.rootKeys)
				return err
			})
			if err != nil {
				return err
			}
			return keyfolder.PrintWritten(cmd, c.format, made)
		},
	}
	keyfolder.AddFlag(cmd.Flags(), &c.folder.Dir)
	passphraseFlag(cmd.Flags(), &c.passphrase)
	cli.OutputFlag(cmd.Flags(), &c.format)
	cmd.Flags().StringArrayVar(&c.rootKeys, "root-key", nil,
		"file of a root key; can be repeated; default: the root keys in the folder")
	return cmd
}
