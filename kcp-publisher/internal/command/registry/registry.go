// Package registry implements the commands for access to the registry, its isolation and pruning, and the token
// service.
package registry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/keyfolder"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/registryops/token"
)

// Names of the key files for a registry's tokens.
const (
	fileRegistryKey    = "registry.key"
	fileRegistryPublic = "registry.pub"
	fileRegistryKeySet = "registry.jwks.json"
)

// New returns the command registry.
func New() *cobra.Command {
	return cli.Group("registry", "prepare and check the registry that runtimes pull from", newRegistryInit(),
		newRegistryCredentials(), newRegistryCheck(), newRegistryPrune())
}

func newRegistryInit() *cobra.Command {
	var dir, format string
	cmd := &cobra.Command{
		Use: "init", Short: "create the key that signs a registry's tokens, and the files to verify them",
		Args: cli.Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			made, err := initRegistryKey(dir)
			if err != nil {
				return err
			}
			return keyfolder.PrintWritten(cmd, format, made)
		},
	}
	keyfolder.AddFlag(cmd.Flags(), &dir)
	cli.OutputFlag(cmd.Flags(), &format)
	return cmd
}

func initRegistryKey(dir string) (made []keys.WrittenFile, err error) {
	folder := keys.Folder{Dir: dir}
	if err := folder.Make(); err != nil {
		return nil, err
	}
	err = folder.WithLock(context.Background(), func(folder keys.Folder) error {
		if path := filepath.Join(dir, fileRegistryKey); !errors.Is(statError(path), os.ErrNotExist) {
			return fmt.Errorf(
				"%s already exists: a registry that trusts this key would refuse all tokens of a new key; nothing "+
					"was changed", path)
		}
		files, err := newRegistryKey(dir)
		if err != nil {
			return err
		}
		made, err = folder.Write(files)
		return err
	})
	return made, err
}

func newRegistryKey(dir string) ([]keys.File, error) {
	key, err := trust.GenerateKey()
	if err != nil {
		return nil, err
	}
	signer, err := trust.LoadSigner(key)
	if err != nil {
		return nil, err
	}
	public, err := trust.PublicKeyPEM(signer)
	if err != nil {
		return nil, err
	}
	issuer, err := token.NewIssuer("", "", signer)
	if err != nil {
		return nil, err
	}
	set, err := issuer.KeySet()
	if err != nil {
		return nil, err
	}
	made := func(name, what, keep string) keys.WrittenFile {
		return keys.WrittenFile{File: filepath.Join(dir, name), What: what, Keep: keep}
	}
	return []keys.File{
		{
			WrittenFile: made(fileRegistryPublic, "verifies tokens, as PEM", "with the registry; public"), Data: public,
			Mode: 0o644,
		},
		{
			WrittenFile: made(fileRegistryKeySet, "verifies tokens, as JSON Web Key Set", "with the registry; public"),
			Data:        set, Mode: 0o644,
		},
		{
			WrittenFile: made(fileRegistryKey, "signs tokens for one registry", "with kcp-publisher token-service"), Data: key,
			Mode: 0o600,
		},
	}, nil
}

func statError(path string) error {
	_, err := os.Stat(path)
	return err
}

func newRegistryCredentials() *cobra.Command {
	var dir, location string
	var generation int
	cmd := &cobra.Command{
		Use: "credentials USER", Short: "print a docker config.json with a user's password for the token service",
		Args: cli.Exactly(1, "one user"),
		Long: "credentials derives the password of a runtime ID, of " + token.UserPublisher +
			" (to publish bundles), of " + token.UserModules + " (to release modules),\n" +
			"of " + token.UserPruner + " (to prune the registry), or of " + token.UserReader +
			" (to read bundles, reports and modules, as the UI does).\n" +
			"The output is a secret.",
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := keyfolder.RegistryCredentials(nil, dir, location, args[0], generation)
			if err != nil {
				return err
			}
			if user := "_" + args[0]; token.CheckUser(user) == nil {
				cli.Printf(cmd.ErrOrStderr(), "warning: this is the password of a runtime with the ID %s; for the user %s, "+
					"run `kcp-publisher registry credentials %s`\n", args[0], user, user)
			}
			_, err = cli.Raw(cmd.OutOrStdout()).Write(config)
			return err
		},
	}
	keyfolder.AddFlag(cmd.Flags(), &dir)
	cmd.Flags().StringVar(&location, "location", "", "the fleet's registry prefix HOST/PATH")
	cmd.Flags().
		IntVar(&generation, "generation", 1,
			"generation of the password; a higher generation in the token service's --generations revokes earlier "+
				"passwords")
	return cmd
}
