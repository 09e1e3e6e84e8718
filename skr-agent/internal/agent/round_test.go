package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/agent/upgrade"
)

func TestRoundActionsDependOnBundleFetchAndImage(t *testing.T) {
	b, released := &bundle.Bundle{}, &bundle.Bundle{}
	released.State.Takeover = bundle.TakeoverRelease
	for name, c := range map[string]struct {
		facts roundFacts
		want  roundActions
	}{
		"no bundle yet": {
			roundFacts{polled: true, proven: true}, roundActions{report: true, status: true, upgrade: true},
		},
		"round without a poll": {
			roundFacts{bundle: b, proven: true}, roundActions{sync: syncAll, report: true, status: true},
		},
		"round with a poll": {
			roundFacts{bundle: b, polled: true, proven: true}, roundActions{
				sync: syncAll, report: true, status: true, upgrade: true,
			},
		},
		"fetch started in the round of a poll": {
			roundFacts{bundle: b, polled: true, fetching: true, proven: true}, roundActions{
				sync: syncStaged, postponed: true, again: minRound,
			},
		},
		"fetch continues in a later round": {
			roundFacts{bundle: b, postponed: true, fetching: true, proven: true}, roundActions{
				sync: syncStaged, postponed: true, again: minRound,
			},
		},
		"fetch completed after postponed work": {
			roundFacts{bundle: b, postponed: true, proven: true}, roundActions{
				sync: syncAll, report: true, status: true, upgrade: true,
			},
		},
		"content store failed in the round of a poll": {
			roundFacts{bundle: b, polled: true, unfetchable: true, proven: true}, roundActions{postponed: true},
		},
		"content store failed without a poll": {
			roundFacts{bundle: b, unfetchable: true, fetching: true, proven: true}, roundActions{},
		},
		"takeover undone, runtime released": {
			roundFacts{bundle: released, proven: true}, roundActions{sync: syncAll, report: true},
		},
		"unproven image that bundles can replace": {
			roundFacts{bundle: b, onTrial: true}, roundActions{
				sync: syncAll, report: true, status: true, upgrade: true, again: upgrade.Trial,
			},
		},
		"unproven image that bundles cannot replace": {
			roundFacts{bundle: b}, roundActions{sync: syncAll, report: true, status: true, upgrade: true},
		},
		"postponed work without a bundle": {
			roundFacts{postponed: true, proven: true}, roundActions{postponed: true, report: true, status: true},
		},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, decideRound(c.facts)) })
	}
}
