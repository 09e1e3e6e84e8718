package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	publishcommand "github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/publish"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/published"
)

func TestWhyCommandShowsSignerAndSourceOfEachModule(t *testing.T) {
	dir, ours, theirs := filepath.Join(t.TempDir(), "fleet"), keyFolder(t), keyFolder(t)
	var rows []publishcommand.Result
	text := mustRun(t, "publish", "--from", filepath.Join("..", "..", "..", "docs", "example"), "--to",
		store.LayoutScheme+dir, "--keys", ours, "-o", "json")
	if err := json.Unmarshal([]byte(text), &rows); err != nil || len(rows) != 2 || rows[0].Runtime != "berlin" {
		t.Fatalf("%v: %s", err, text)
	}
	kyma := func(digest string) *v1beta2.Kyma {
		k := &v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{Name: "berlin"}}
		if digest != "" {
			k.Status.Runtime = &v1beta2.RuntimeStatus{Published: &v1beta2.PublishedBundle{Digest: digest}}
		}
		return k
	}
	asking := published.Flags{Location: store.LayoutScheme + dir, Trust: filepath.Join(ours, "root.json")}
	foreign := published.Flags{Location: asking.Location, Trust: filepath.Join(theirs, "root.json")}

	for name, c := range map[string]struct {
		flags  published.Flags
		digest string
		module string
		want   int
	}{
		"bundle in the Kyma's status":   {asking, rows[0].Digest, "", 1},
		"Kyma without a status":         {asking, "", "", 1},
		"a module in the bundle":        {asking, rows[0].Digest, "scaler", 1},
		"a module outside the bundle":   {asking, rows[0].Digest, "mailer", 0},
		"no origins without --location": {published.Flags{}, rows[0].Digest, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			origins, err := c.flags.ReadOrigins(t.Context(), kyma(c.digest), c.module)
			if err != nil || len(origins) != c.want {
				t.Fatalf("got %+v, %v, want %d", origins, err, c.want)
			}
			if c.want == 0 {
				return
			}
			o := origins[0]
			if o.Module != "scaler" || o.Version != "1.7.0" || o.Component == "" || len(o.Content) == 0 ||
				o.Bundle.Digest.String() != rows[0].Digest ||
				o.Bundle.Runtime != "berlin" || o.Bundle.Sequence != rows[0].Sequence || o.Bundle.PublisherKey == "" ||
				o.Bundle.RootVersion != 1 {
				t.Errorf("got origin %+v", o)
			}
			var out bytes.Buffer
			published.DrawOrigins(&out, origins)
			for _, want := range []string{rows[0].Digest, o.Bundle.PublisherKey, o.Component + ":1.7.0",
				o.Content[0].Digest.String()} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("output does not contain %s:\n%s", want, &out)
				}
			}
		})
	}
	if c, err := asking.ReadChain(t.Context(), kyma(rows[0].Digest)); err != nil || len(c.Bundles) != 1 ||
		c.EndReason != "" ||
		c.Bundles[0].PublisherKey == "" || c.Bundles[0].Digest.String() != rows[0].Digest {
		t.Errorf("chain of the published bundle: got %+v, %v", c, err)
	}
	if c, err := asking.ReadChain(t.Context(), kyma(rows[1].Digest)); err != nil || len(c.Bundles) != 0 ||
		c.EndReason == "" {
		t.Errorf("chain of another runtime's bundle: got %+v, %v", c, err)
	}
	missing := "sha256:" + strings.Repeat("0", 64)
	if c, err := asking.ReadChain(t.Context(), kyma(missing)); err != nil || strings.Count(c.EndReason, "000") > 64/3 ||
		!strings.Contains(c.EndReason, "check that --location is the location of the runtime's publisher") {
		t.Errorf("chain of a missing bundle: got %+v, %v, want one digest and the cause", c, err)
	}
	if c, err := (&published.Flags{}).ReadChain(t.Context(), kyma(rows[0].Digest)); err != nil || c.Asked {
		t.Errorf("chain without --location: got %+v, %v", c, err)
	}
	for name, c := range map[string]struct {
		flags  published.Flags
		digest string
		judge  func(error) bool
	}{
		"a bundle from another fleet is refused": {
			foreign, rows[0].Digest, func(err error) bool { return refusal.Of(err) != nil },
		},
		"another runtime's bundle is refused": {asking, rows[1].Digest, func(err error) bool {
			r := refusal.Of(err)
			return r != nil && r.Reason == refusal.WrongRuntime
		}},
		"a missing bundle is reported as not found": {
			asking, "sha256:" + strings.Repeat("0", 64), func(err error) bool {
				return errors.Is(err, store.ErrNotFound) &&
					strings.Contains(err.Error(), "/runtimes/berlin: check that --location is the location")
			},
		},
		"a location without a root of trust is a usage error": {
			published.Flags{Location: asking.Location}, "", func(err error) bool { return cli.IsUsage(err) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			if origins, err := c.flags.ReadOrigins(t.Context(), kyma(c.digest), ""); !c.judge(err) {
				t.Errorf("got origins %+v, error %v", origins, err)
			}
		})
	}
}
