package kymaschema

import (
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestInvalidKymaFieldsAreRefused(t *testing.T) {
	schema, err := New()
	if err != nil {
		t.Fatal(err)
	}
	module := func(name string) v1beta2.Module { return v1beta2.Module{Name: name, Managed: true} }
	good := v1beta2.KymaSpec{
		Channel: "regular", Modules: []v1beta2.Module{
			module("keda"), {
				Name: "kcp-system/serverless", Channel: "fast", CustomResourcePolicy: v1beta2.PolicyIgnore,
			},
		},
	}
	ready := []v1beta2.ModuleStatus{
		{Name: "keda", Channel: "regular", Version: "1.0.0", State: v1beta2.StateReady, Message: "why not"},
	}
	for name, c := range map[string]struct {
		spec    func(*v1beta2.KymaSpec)
		modules []v1beta2.ModuleStatus
		want    string
	}{
		"valid parts": {modules: ready},
		"channel with invalid characters": {
			spec: func(s *v1beta2.KymaSpec) { s.Channel = "Ü!" }, want: "spec.channel: ",
		},
		"channel that is too long": {
			spec: func(s *v1beta2.KymaSpec) { s.Channel = strings.Repeat("a", 9000) }, want: "spec.channel: ",
		},
		"missing channel": {
			spec: func(s *v1beta2.KymaSpec) { s.Channel = "" }, want: "spec.channel: ",
		},
		"duplicate module": {
			spec: func(s *v1beta2.KymaSpec) { s.Modules = append(s.Modules, module("keda")) },
			want: `spec.modules[2]: {"name":"keda"}: appears twice`,
		},
		"unknown policy": {
			spec: func(s *v1beta2.KymaSpec) { s.Modules[0].CustomResourcePolicy = "Sometimes" },
			want: "spec.modules[0].customResourcePolicy: ",
		},
		"invalid version": {
			spec: func(s *v1beta2.KymaSpec) { s.Modules[0].Version = "latest" }, want: "spec.modules[0].version: ",
		},
		"module channel with control characters": {
			spec: func(s *v1beta2.KymaSpec) { s.Modules[1].Channel = "\x1b[2J\nfast" },
			want: `spec.modules[1].channel: "\x1b[2J\nfast"`,
		},
		"unknown state": {
			modules: []v1beta2.ModuleStatus{{Name: "keda", State: "Splendid"}}, want: "status.modules[0].state: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := *good.DeepCopy()
			if c.spec != nil {
				c.spec(&spec)
			}
			err := schema.Check(&spec, c.modules)
			if c.want == "" {
				if without := schema.Check(nil, c.modules); err != nil || without != nil {
					t.Errorf("got error %v with a spec and %v without, want none", err, without)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), c.want) || len(err.Error()) > 512 ||
				strings.ContainsAny(err.Error(), "\x1b\n") {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}
