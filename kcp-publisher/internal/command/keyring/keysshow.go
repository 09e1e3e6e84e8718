package keyring

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/keyfolder"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
)

// ShownRoot is the root of trust as keys show prints it.
type ShownRoot struct {
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
	Expired    bool              `json:"expired"`
	// Keys lists the keys in the root of trust and in the key folder with their states.
	Keys []keys.Key `json:"keys"`
}

func newKeysShow() *cobra.Command {
	var folder keys.Folder
	var format string
	cmd := &cobra.Command{
		Use: "show", Short: "show the root of trust and each key's state", Args: cli.Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, all, err := folder.Keys(cmd.Context(), time.Now())
			if err != nil {
				return err
			}
			shown := ShownRoot{
				Version: root.Version, Epoch: root.Epoch, Fleet: root.Fleet, Expires: root.Expires,
				Publishers: root.Publishers(), Enrollers: root.Enrollers(), Releases: root.Releases(),
				Floors: root.Floors, Revoked: root.Revoked,
				Expired: !time.Now().Before(root.Expires), Keys: all,
			}
			shown.Root, shown.Threshold = root.Signers()
			return cli.Print(cmd.OutOrStdout(), format, shown, shown.draw)
		},
	}
	keyfolder.AddPublisherFlags(cmd.Flags(), &folder)
	cli.OutputFlag(cmd.Flags(), &format)
	return cmd
}

func (s ShownRoot) draw(out io.Writer) {
	expires := s.Expires.Format(time.DateOnly)
	if s.Expired {
		expires += " EXPIRED"
	}
	t := terminal.NewTable(out)
	t.AppendHeader(table.Row{"VERSION", "EPOCH", "FLEET", "EXPIRES", "PUBLISHER KEYS"})
	t.AppendRow(table.Row{s.Version, s.Epoch, s.Fleet, expires, s.Publishers})
	t.Render()
	cli.Printf(out, "\nroot keys (%d of %d): %s\n", s.Threshold, len(s.Root), strings.Join(s.Root, " "))
	if len(s.Enrollers) > 0 {
		cli.Printf(out, "enrollment keys: %s\n", strings.Join(s.Enrollers, " "))
	}
	fmt.Fprintln(out)
	t = terminal.NewTable(out)
	t.AppendHeader(table.Row{"ROLE", "KEY", "STATE"})
	for _, key := range s.Keys {
		t.AppendRow(table.Row{keys.RoleName(key.Role), key.Thumbprint, s.stateText(key)})
	}
	t.Render()
	fmt.Fprintln(out)
	if s.Expired {
		fmt.Fprintln(out,
			"the root of trust is EXPIRED: agents accept no new bundles; renew it with `kcp-publisher keys rotate`")
	}
	for _, prefix := range s.Releases {
		cli.Printf(out, "release keys required for components %q\n", prefix+"*")
	}
	for _, component := range slices.Sorted(maps.Keys(s.Floors)) {
		cli.Printf(out, "minimum version: %s %s\n", component, s.Floors[component])
	}
	if len(s.Revoked) > 0 {
		cli.Printf(out, "revoked: %s\n", strings.Join(s.Revoked, " "))
	}
}

func (s ShownRoot) stateText(key keys.Key) string {
	switch key.State {
	case keys.InUse:
		return "in use"
	case keys.Next:
		return "next: in use once the draft of the root is signed"
	case keys.Accepted:
		if key.AcceptedUntil == nil {
			return "still accepted until the next rotation"
		}
		return "still accepted until the next rotation, at most until " + key.AcceptedUntil.Format(time.DateOnly)
	case keys.NotListed:
		return "NOT LISTED: no agent accepts its signatures"
	}
	return "EXPIRED with the root of trust"
}
