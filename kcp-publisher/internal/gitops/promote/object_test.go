package promote

import (
	"errors"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestAPromotionChangesOneVersion(t *testing.T) {
	for name, c := range map[string]struct {
		source, channel string
		create          bool
		want, wrong     string
	}{
		"a newer version":                  {"fast", "regular", false, "fast=1.9.0 regular=1.9.0 slow=2.0.0", ""},
		"a new channel":                    {"fast", "lab", true, "fast=1.9.0 regular=1.8.0 slow=2.0.0 lab=1.9.0", ""},
		"a missing channel without create": {"fast", "lab", false, "", "add --create"},
		"one channel":                      {"fast", "fast", false, "", "both where"},
		"an older version":                 {"fast", "slow", false, "", "1.9.0 is older"},
		"a channel of nothing":             {"none", "fast", false, "", "the channels are fast, regular, slow"},
	} {
		spec := v1beta2.ModuleReleaseMetaSpec{ModuleName: "keda", Channels: []v1beta2.ChannelVersion{
			{Channel: "fast", Version: "1.9.0"}, {Channel: "regular", Version: "1.8.0"}, {Channel: "slow",
				Version: "2.0.0"},
		}}
		p, err := In(&spec, c.source, c.channel, c.create)
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: got %v", name, err)
			}
			continue
		}
		var got []string
		for _, channel := range spec.Channels {
			got = append(got, channel.Channel+"="+channel.Version)
		}
		if err != nil || strings.Join(got, " ") != c.want || p.To != "1.9.0" || p.Module != "keda" {
			t.Errorf("%s: %v, %+v, %v", name, got, p, err)
		}
		if _, again := In(&spec, c.source, c.channel, false); !errors.Is(again, ErrNothing) {
			t.Errorf("%s once more: %v", name, again)
		}
	}
}
