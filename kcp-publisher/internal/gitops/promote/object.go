package promote

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// PromoteIn copies the version in channel source to another channel. It changes the ModuleReleaseMeta's spec in
// place. A missing channel is an error unless create is set.
func PromoteIn(spec *v1beta2.ModuleReleaseMetaSpec, source, channel string, create bool) (Promotion, error) {
	p := Promotion{Module: spec.ModuleName, Source: source, Channel: channel}
	if source == channel {
		return p, fmt.Errorf("channel %q is both the source and the target of the promotion", channel)
	}
	at := func(name string) int {
		return slices.IndexFunc(spec.Channels, func(c v1beta2.ChannelVersion) bool { return c.Channel == name })
	}
	var known []string
	for _, c := range spec.Channels {
		known = append(known, c.Channel)
	}
	from, to := at(source), at(channel)
	switch {
	case len(known) == 0:
		return p, fmt.Errorf("channel %q has no version: add it to spec.channels of the ModuleReleaseMeta", source)
	case from < 0:
		return p, fmt.Errorf("channel %q has no version: the channels are %s", source, strings.Join(known, ", "))
	case spec.Channels[from].Version == "":
		return p, fmt.Errorf("channel %q has no version: set version in spec.channels of the ModuleReleaseMeta", source)
	}
	p.To = spec.Channels[from].Version
	if to < 0 {
		if !create {
			return p, fmt.Errorf("channel %q does not exist; the channels are %s: add --create to create it", channel,
				strings.Join(known, ", "))
		}
		added := *spec.Channels[from].DeepCopy()
		added.Channel = channel
		spec.Channels = append(spec.Channels, added)
		return p, nil
	}
	switch p.From = spec.Channels[to].Version; {
	case p.From == p.To:
		return p, fmt.Errorf("%w: channel %q has version %s", ErrNothing, channel, p.To)
	case bundle.IsOlder(p.To, p.From):
		return p, fmt.Errorf(
			"channel %q has version %s, and runtimes do not downgrade to the older version %s: use "+
				"`kcp-publisher rollout undo`, or release a newer version",
			channel,
			p.From,
			p.To,
		)
	}
	spec.Channels[to].Version = p.To
	return p, nil
}
