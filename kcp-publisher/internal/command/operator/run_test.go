package operator

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/flagset"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller"
)

func TestOnlySelectedKymasAreWatched(t *testing.T) {
	for selector, want := range map[string]bool{"": true, "shard=one": true, "shard!=two": true, "shard=two": false,
		"!shard": false} {
		share, err := flagset.NewShare(selector)
		if err != nil {
			t.Fatal(err)
		}
		options := (&runFlags{slimmer: controller.NewSlimmer(), namespace: "kcp-system"}).cacheOptions(share)
		found := false
		for object, by := range options.ByObject {
			if _, ok := object.(*v1beta2.Kyma); !ok {
				continue
			}
			found = true
			if got := by.Label.Matches(labels.Set{"shard": "one"}); got != want {
				t.Errorf("%q: a Kyma of shard one is watched: %t, want %t", selector, got, want)
			}
		}
		if _, ok := options.DefaultNamespaces["kcp-system"]; !found || !ok || len(options.DefaultNamespaces) != 1 {
			t.Errorf("%q: got %+v", selector, options)
		}
	}
	if _, err := flagset.NewShare("shard in one"); !cli.IsUsage(err) {
		t.Errorf("got %v, want a usage error", err)
	}
}

// To keep the help of `run` short, rarely changed values are settings instead of flags.
func TestRunCommandHasFewFlags(t *testing.T) {
	const most = 50
	connection := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(cli.Cluster).AddFlags(connection, "the control plane")
	root, g := cli.NewRoot("kcp-publisher", "", "v0.0.0-test")
	cmd := New(g)
	root.AddCommand(cmd)
	var own []string
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if connection.Lookup(f.Name) == nil {
			own = append(own, f.Name)
		}
	})
	if len(own) > most {
		t.Errorf("run has %d flags of its own, must have at most %d: make some of them settings: %s", len(own), most,
			strings.Join(own, " "))
	}
	t.Logf("run has %d flags and %d settings", len(own), settingsCount(cmd))
}

func settingsCount(cmd *cobra.Command) (count int) {
	cli.SettingsOf(cmd.Flags()).VisitAll(func(*pflag.Flag) { count++ })
	return count
}
