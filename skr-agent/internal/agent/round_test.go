package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/agent/upgrade"
)

func TestDecideRound(t *testing.T) {
	b, released := &bundle.Bundle{}, &bundle.Bundle{}
	released.State.Takeover = bundle.TakeoverRelease
	for name, c := range map[string]struct {
		facts roundFacts
		want  roundActions
	}{
		"no bundle yet": {
			roundFacts{polled: true, proven: true}, roundActions{report: true, status: true, upgrade: true},
		},
		"no change": {
			roundFacts{bundle: b, proven: true}, roundActions{sync: syncAll, report: true, status: true},
		},
		"after a poll": {
			roundFacts{bundle: b, polled: true, proven: true}, roundActions{
				sync: syncAll, report: true, status: true, upgrade: true,
			},
		},
		"content is being fetched after a poll": {
			roundFacts{bundle: b, polled: true, fetching: true, proven: true}, roundActions{
				sync: syncStaged, postponed: true, again: minRound,
			},
		},
		"content is still being fetched": {
			roundFacts{bundle: b, postponed: true, fetching: true, proven: true}, roundActions{
				sync: syncStaged, postponed: true, again: minRound,
			},
		},
		"the fetch is over": {
			roundFacts{bundle: b, postponed: true, proven: true}, roundActions{
				sync: syncAll, report: true, status: true, upgrade: true,
			},
		},
		"the store failed after a poll": {
			roundFacts{bundle: b, polled: true, unfetchable: true, proven: true}, roundActions{postponed: true},
		},
		"the store failed": {
			roundFacts{bundle: b, unfetchable: true, fetching: true, proven: true}, roundActions{},
		},
		"the runtime was released": {
			roundFacts{bundle: released, proven: true}, roundActions{sync: syncAll, report: true},
		},
		"an image that is not proven, on trial": {
			roundFacts{bundle: b, onTrial: true}, roundActions{
				sync: syncAll, report: true, status: true, upgrade: true, again: upgrade.Trial,
			},
		},
		"an image that is not proven, by itself": {
			roundFacts{bundle: b}, roundActions{sync: syncAll, report: true, status: true, upgrade: true},
		},
		"postponed work waits for a bundle": {
			roundFacts{postponed: true, proven: true}, roundActions{postponed: true, report: true, status: true},
		},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, decideRound(c.facts)) })
	}
}
