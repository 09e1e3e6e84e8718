package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// faultyModule is a module with one fault, and the expected messages.
type faultyModule struct {
	module string
	state  v1beta2.State
	// situation is the cause that `kcp-publisher why` must print.
	situation string
	// want lists strings that the module's message must contain. MODULE stands for the module's name in the shared
	// fleet.
	want  []string
	offer func(context.Context, *fleet.Fleet) error
}

func (b faultyModule) wants(module string) (all []string) {
	for _, want := range b.want {
		all = append(all, strings.ReplaceAll(want, "MODULE", module))
	}
	return all
}

func release(ctx context.Context, f *fleet.Fleet, v sample.Version) error {
	return f.Release(ctx, v.Module, v.Component(), sample.Channel("regular", v.Version))
}

func offerManifest(module, manifest string) func(context.Context, *fleet.Fleet) error {
	return func(ctx context.Context, f *fleet.Fleet) error {
		v := owned(f, sample.Version{Module: module, Version: "1.0.0", Manifest: manifest})
		if err := f.Offer(ctx, v); err != nil {
			return err
		}
		return release(ctx, f, v)
	}
}

var brokenModules = []faultyModule{
	{
		"unknown", v1beta2.StateWarning, "ModuleUnknown", []string{"module MODULE", "is unknown"},
		func(context.Context, *fleet.Fleet) error { return nil },
	},
	{"channelless", v1beta2.StateWarning, "ChannelMissing",
		[]string{`channel "regular" has no version`, "spec.channels"}, func(ctx context.Context, f *fleet.Fleet) error {
			return f.Release(ctx, f.Own("channelless"), mailer(f, "").Component(), sample.Channel("fast", "1.0.0"))
		}},
	{"doubled", v1beta2.StateWarning, "TemplateDoubled",
		[]string{"version 1.0.0 has two ModuleTemplates", "MODULE-again"},
		func(ctx context.Context, f *fleet.Fleet) error {
			v := owned(f, sample.Version{Module: "doubled", Version: "1.0.0", Manifest: "{}"})
			again := v.Template()
			again.Name = v.Module + "-again"
			if err := f.Offer(ctx, v); err != nil {
				return err
			}
			if err := f.Control.Create(ctx, again); err != nil {
				return err
			}
			return release(ctx, f, v)
		}},
	{"unreleased", v1beta2.StateError, "ComponentNotFound",
		[]string{"component kyma-pull.dev/module/MODULE:1.0.0", "not found"},
		func(ctx context.Context, f *fleet.Fleet) error {
			v := owned(f, sample.Version{Module: "unreleased", Version: "1.0.0"})
			if err := f.Control.Create(ctx, v.Template()); err != nil {
				return err
			}
			return release(ctx, f, v)
		}},
	{
		"unparseable", v1beta2.StateError, "ModuleContentBroken", []string{"MODULE.yaml", "document 1"},
		offerManifest("unparseable", "a: ["),
	},
	{
		"kindless", v1beta2.StateError, "ModuleContentBroken", []string{"MODULE.yaml", "kind"},
		offerManifest("kindless", "a: b"),
	},
	{
		"strange", v1beta2.StateError, "ModuleKindUnknown", []string{"Spaceship", "enterprise"},
		offerManifest("strange", "apiVersion: space.example/v1\nkind: Spaceship\nmetadata: {name: enterprise}\n"),
	},
}

func TestBrokenModulesFailIndependentlyWithReasons(t *testing.T) {
	ctx := t.Context()
	f := shareFleet(t)
	var names []string
	for _, b := range brokenModules {
		names = append(names, f.Own(b.module))
		if err := b.offer(ctx, f); err != nil {
			t.Fatalf("%s: %v", b.module, err)
		}
	}
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
		for _, name := range names {
			spec.Modules = append(spec.Modules, managed(name))
		}
	}))
	for _, b := range brokenModules {
		t.Run(b.module, func(t *testing.T) {
			for side, read := range map[string]func(context.Context) (*v1beta2.Kyma, error){"control plane": r.Record,
				"runtime": r.Kyma} {
				until(t, 40*time.Second, fmt.Sprintf("the %s reports the problem with %s", side, b.module),
					func() (bool, string) {
						kyma, err := read(ctx)
						if err != nil {
							return false, err.Error()
						}
						return shows(kyma, f.Own(b.module), b), fmt.Sprintf("%+v", kyma.Status.Modules)
					})
			}
		})
	}
	t.Run("unaffected module stays ready", func(t *testing.T) {
		must(t, r.UntilState(ctx, f.Own("scaler"), "1.7.0", v1beta2.StateReady))
		promote(t, f, "1.8.0")
		must(t, r.UntilState(ctx, f.Own("scaler"), "1.8.0", v1beta2.StateReady))
	})
	t.Run("kcp-publisher why reports the first cause", func(t *testing.T) {
		output, err := f.Why(ctx, r.ID, f.Own("unknown"))
		if err != nil || !strings.Contains(output, "is unknown") || !strings.Contains(output, "  fix  ") ||
			!strings.Contains(output, "\n  report ") {
			t.Errorf("unexpected output of why: error %v\n%s", err, output)
		}
		for _, b := range brokenModules {
			untilWhy(t, f, b.situation, r.ID, f.Own(b.module))
		}
	})
	t.Run("kcp-publisher why reports missing enrollment and a revoked key", func(t *testing.T) {
		must(t, f.CreateKyma(ctx, fleet.NewKyma(f.Own("nobody"), "regular", f.Own("scaler"))))
		untilWhy(t, f, "NeverEnrolled", f.Own("nobody"))
		output, err := f.Ask(ctx, "revoke", r.ID)
		if err != nil {
			t.Fatalf("revoke: %v\n%s", err, output)
		}
		untilWhy(t, f, "KeyRevoked", r.ID, f.Own("scaler"))
	})
}

// untilWhy waits until `kcp-publisher why` reports a situation with its advice.
func untilWhy(t *testing.T, f *fleet.Fleet, situation string, args ...string) {
	t.Helper()
	until(t, 60*time.Second, fmt.Sprintf("why %s reports %s", args, situation), func() (bool, string) {
		output, err := f.Why(t.Context(), append(args, "-o", "json")...)
		var got struct{ Situation, Cause, Advice string }
		if err == nil {
			err = json.Unmarshal([]byte(output), &got)
		}
		return err == nil && got.Situation == situation && got.Cause != "" && got.Advice != "",
			fmt.Sprint(output, err)
	})
}

// shows reports whether the Kyma's status has the module in state Error or Warning with the expected message.
func shows(kyma *v1beta2.Kyma, module string, b faultyModule) bool {
	for _, m := range kyma.Status.Modules {
		if m.Name != module || m.State != b.state {
			continue
		}
		for _, want := range b.wants(module) {
			if !strings.Contains(m.Message, want) {
				return false
			}
		}
		return true
	}
	return false
}

func TestBrokenUpgradeKeepsLastGoodVersion(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{})
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	t.Run("version with a missing component is not installed", func(t *testing.T) {
		missing := sample.Scaler("1.9.0")
		must(t, f.Control.Create(ctx, missing.Template()))
		promote(t, f, "1.9.0")
		must(t, r.UntilState(ctx, "scaler", "1.7.0", v1beta2.StateError))
		config, err := settings(ctx, r)
		must(t, err)
		if config.Data["version"] != "1.7.0" {
			t.Errorf("installed version is %s, want 1.7.0", config.Data["version"])
		}
	})
	t.Run("upgrade waits for content that cannot be fetched", func(t *testing.T) {
		f.Registry.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
			// The publisher reads only descriptors, so faulty content affects only agents.
			if strings.HasSuffix(req.URL.Path, "/blobs/"+sample.Scaler("1.8.0").ContentDigest().String()) {
				http.Error(w, "gone", http.StatusNotFound)
				return true
			}
			return false
		})
		defer f.Registry.Intercept(nil)
		promote(t, f, "1.8.0")
		until(t, 30*time.Second, "the runtime's Kyma reports that 1.8.0 waits for its content", func() (bool, string) {
			kyma, err := r.Kyma(ctx)
			if err != nil {
				return false, err.Error()
			}
			for _, m := range kyma.Status.Modules {
				if m.Name == "scaler" && m.State == v1beta2.StateError && strings.Contains(m.Message, "content") {
					return true, ""
				}
			}
			return false, fmt.Sprintf("%+v", kyma.Status.Modules)
		})
		config, err := settings(ctx, r)
		must(t, err)
		if config.Data["version"] != "1.7.0" {
			t.Errorf("installed version is %s, want 1.7.0", config.Data["version"])
		}
		f.Registry.Intercept(nil)
		must(t, r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
	})
	t.Run("version that never becomes ready names the Deployment", func(t *testing.T) {
		must(t, f.Offer(ctx, sample.BrokenScaler("2.0.0")))
		promote(t, f, "2.0.0")
		must(t, r.UntilState(ctx, "scaler", "2.0.0", v1beta2.StateProcessing))
		until(t, 20*time.Second, "the message names the Deployment", func() (bool, string) {
			record, err := r.Record(ctx)
			if err != nil || len(record.Status.Modules) != 1 {
				return false, fmt.Sprint(err)
			}
			return strings.Contains(record.Status.Modules[0].Message, "scaler-manager"),
				record.Status.Modules[0].Message
		})
	})
	t.Run("downgrade in the channel is not applied", func(t *testing.T) {
		promote(t, f, "1.7.0")
		until(t, 20*time.Second, "the Kyma reports that the downgrade is not applied", func() (bool, string) {
			record, err := r.Record(ctx)
			if err != nil || len(record.Status.Modules) != 1 {
				return false, fmt.Sprint(err)
			}
			m := record.Status.Modules[0]
			return m.Version == "2.0.0" && strings.Contains(m.Message, "which is older"), m.Message
		})
		manifest := &v1beta2.Manifest{}
		must(t, r.API.Get(ctx, client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: "scaler"}, manifest))
		if manifest.Spec.Version != "2.0.0" {
			t.Errorf("the Manifest has version %s, want no downgrade", manifest.Spec.Version)
		}
	})
}
