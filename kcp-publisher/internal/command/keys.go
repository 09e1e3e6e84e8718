package command

import (
	"crypto"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// Files of a key folder.
const (
	fileRoot         = "root.json"
	fileRootKey      = "root.key"
	filePublisherKey = "publisher.key"
	fileTokenKey     = "token.key"
)

// rootValidity is the life of a root of trust.
const rootValidity = 365 * 24 * time.Hour

func keysFlag(flags *pflag.FlagSet, into *string) {
	flags.StringVar(into, "keys", "keys", "folder with the root of trust and the keys")
}

func newKeys() *cobra.Command {
	cmd := &cobra.Command{Use: "keys", Short: "makes and shows the fleet's keys", RunE: func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usageError{fmt.Errorf("unknown command %q", args[0])}
		}
		return cmd.Help()
	}}
	cmd.AddCommand(newKeysInit(), newKeysShow())
	return cmd
}

func newKeysInit() *cobra.Command {
	var dir, format string
	cmd := &cobra.Command{
		Use: "init", Short: "makes a root of trust, a publisher key and a secret for enrolment tokens", Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			made, err := initKeys(dir, time.Now())
			if err != nil {
				return err
			}
			return print(cmd.OutOrStdout(), format, made, func(out io.Writer) {
				t := newTable(out)
				t.AppendHeader(table.Row{"FILE", "WHAT", "KEEP IT"})
				for _, f := range made {
					t.AppendRow(table.Row{f.File, f.What, f.Keep})
				}
				t.Render()
			})
		},
	}
	keysFlag(cmd.Flags(), &dir)
	outputFlag(cmd.Flags(), &format)
	return cmd
}

// keyFile is one file that was made.
type keyFile struct {
	File string `json:"file"`
	What string `json:"what"`
	Keep string `json:"keep"`
}

func initKeys(dir string, now time.Time) ([]keyFile, error) {
	for _, name := range []string{fileRoot, fileRootKey, filePublisherKey, fileTokenKey} {
		if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("%s exists: runtimes that trust it would be lost, so nothing was changed", filepath.Join(dir, name))
		}
	}
	rootKey, err := bundle.GenerateKey()
	if err != nil {
		return nil, err
	}
	publisherKey, err := bundle.GenerateKey()
	if err != nil {
		return nil, err
	}
	rootSigner, err := bundle.LoadSigner(rootKey)
	if err != nil {
		return nil, err
	}
	publisher, err := bundle.LoadSigner(publisherKey)
	if err != nil {
		return nil, err
	}
	public, err := publisher.PublicKey()
	if err != nil {
		return nil, err
	}
	root, err := bundle.NewRoot(rootSigner, []crypto.PublicKey{public}, now.Add(rootValidity))
	if err != nil {
		return nil, err
	}
	token := make([]byte, 32)
	if _, err := rand.Read(token); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	files := []struct {
		keyFile
		data []byte
		mode os.FileMode
	}{
		{keyFile{fileRootKey, "signs new versions of the root of trust", "offline"}, rootKey, 0o600},
		{keyFile{filePublisherKey, "signs bundles", "with kcp-publisher"}, publisherKey, 0o600},
		{keyFile{fileTokenKey, "derives enrolment tokens", "with kcp-publisher"}, fmt.Appendf(nil, "%x\n", token), 0o600},
		{keyFile{fileRoot, "the root of trust, version 1", "public; pinned in every agent"}, root, 0o644},
	}
	made := make([]keyFile, 0, len(files))
	for _, f := range files {
		f.File = filepath.Join(dir, f.File)
		if err := os.WriteFile(f.File, f.data, f.mode); err != nil {
			return nil, err
		}
		made = append(made, f.keyFile)
	}
	return made, nil
}

func newKeysShow() *cobra.Command {
	var dir, format string
	cmd := &cobra.Command{
		Use: "show", Short: "shows the root of trust", Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := loadRoot(dir)
			if err != nil {
				return err
			}
			shown := struct {
				Version    int64     `json:"version"`
				Epoch      int64     `json:"epoch"`
				Expires    time.Time `json:"expires"`
				Publishers []string  `json:"publishers"`
			}{root.Version, root.Epoch, root.Expires, root.Publishers()}
			return print(cmd.OutOrStdout(), format, shown, func(out io.Writer) {
				t := newTable(out)
				t.AppendHeader(table.Row{"VERSION", "EPOCH", "EXPIRES", "PUBLISHER KEYS"})
				t.AppendRow(table.Row{shown.Version, shown.Epoch, shown.Expires.Format(time.DateOnly), strings.Join(shown.Publishers, "\n")})
				t.Render()
			})
		},
	}
	keysFlag(cmd.Flags(), &dir)
	outputFlag(cmd.Flags(), &format)
	return cmd
}

func newTable(out io.Writer) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(out)
	t.SetStyle(table.StyleLight)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.Style().Box.PaddingLeft = ""
	t.Style().Box.PaddingRight = "  "
	return t
}

func loadRoot(dir string) (bundle.Root, error) {
	path := filepath.Join(dir, fileRoot)
	data, err := os.ReadFile(path)
	if err != nil {
		return bundle.Root{}, fmt.Errorf("%w: make one with `kcp-publisher keys init --keys %s`", err, dir)
	}
	root, err := bundle.ParseRoot(data)
	if err != nil {
		return bundle.Root{}, fmt.Errorf("%s: %w", path, err)
	}
	return root, nil
}

func loadPublisher(dir string) (bundle.Root, bundle.Signer, error) {
	root, err := loadRoot(dir)
	if err != nil {
		return root, nil, err
	}
	path := filepath.Join(dir, filePublisherKey)
	data, err := os.ReadFile(path)
	if err != nil {
		return root, nil, err
	}
	signer, err := bundle.LoadSigner(data)
	if err != nil {
		return root, nil, fmt.Errorf("%s: %w", path, err)
	}
	return root, signer, nil
}

func loadTokenSecret(dir string) (bundle.TokenSecret, error) {
	path := filepath.Join(dir, fileTokenKey)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	secret, err := hex.DecodeString(strings.TrimSpace(string(data)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return secret, nil
}
