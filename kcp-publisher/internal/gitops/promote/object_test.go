package promote

import (
	"errors"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestPromotionErrorNamesTheMissingVersionField(t *testing.T) {
	for name, c := range map[string]struct {
		channels []v1beta2.ChannelVersion
		want     string
	}{
		"no channels": {nil, `channel "fast" has no version: add it to spec.channels`},
		"channel without a version": {
			[]v1beta2.ChannelVersion{{Channel: "fast"}, {Channel: "regular", Version: "1.0.0"}},
			`channel "fast" has no version: set version in spec.channels`,
		},
	} {
		spec := v1beta2.ModuleReleaseMetaSpec{ModuleName: "keda", Channels: c.channels}
		if _, err := PromoteIn(&spec, "fast", "regular", false); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q", name, err, c.want)
		}
	}
}

func TestPromotionChangesOneVersion(t *testing.T) {
	for name, c := range map[string]struct {
		source, channel string
		create          bool
		want, wrong     string
	}{
		"newer version in the source":     {"fast", "regular", false, "fast=1.9.0 regular=1.9.0 slow=2.0.0", ""},
		"new channel, create allowed":     {"fast", "lab", true, "fast=1.9.0 regular=1.8.0 slow=2.0.0 lab=1.9.0", ""},
		"new channel, create not allowed": {"fast", "lab", false, "", "add --create"},
		"source equals target":            {"fast", "fast", false, "", "both the source"},
		"older version in the source":     {"fast", "slow", false, "", "older version 1.9.0"},
		"source that does not exist":      {"none", "fast", false, "", "the channels are fast, regular, slow"},
	} {
		spec := v1beta2.ModuleReleaseMetaSpec{ModuleName: "keda", Channels: []v1beta2.ChannelVersion{
			{Channel: "fast", Version: "1.9.0"}, {Channel: "regular", Version: "1.8.0"}, {Channel: "slow",
				Version: "2.0.0"},
		}}
		p, err := PromoteIn(&spec, c.source, c.channel, c.create)
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: got error %v, want %q", name, err, c.wrong)
			}
			continue
		}
		var got []string
		for _, channel := range spec.Channels {
			got = append(got, channel.Channel+"="+channel.Version)
		}
		if err != nil || strings.Join(got, " ") != c.want || p.To != "1.9.0" || p.Module != "keda" {
			t.Errorf("%s: got channels %v, promotion %+v, error %v, want %s", name, got, p, err, c.want)
		}
		if _, again := PromoteIn(&spec, c.source, c.channel, false); !errors.Is(again, ErrNothing) {
			t.Errorf("%s, promoted again: got error %v, want ErrNothing", name, again)
		}
	}
}
