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
		facts roundInput
		want  roundActions
	}{
		"no bundle yet": {
			roundInput{polled: true, proven: true}, roundActions{report: true, status: true, upgrade: true},
		},
		"round without a poll": {
			roundInput{bundle: b, proven: true}, roundActions{sync: syncAll, report: true, status: true},
		},
		"round with a poll": {
			roundInput{bundle: b, polled: true, proven: true}, roundActions{
				sync: syncAll, report: true, status: true, upgrade: true,
			},
		},
		"fetch started in the round of a poll": {
			roundInput{bundle: b, polled: true, fetching: true, proven: true}, roundActions{
				sync: syncStaged, postponed: true, requeueAfter: minDelay,
			},
		},
		"fetch continues in a later round": {
			roundInput{bundle: b, postponed: true, fetching: true, proven: true}, roundActions{
				sync: syncStaged, postponed: true, requeueAfter: minDelay,
			},
		},
		"fetch completed after postponed work": {
			roundInput{bundle: b, postponed: true, proven: true}, roundActions{
				sync: syncAll, report: true, status: true, upgrade: true,
			},
		},
		"content store failed in the round of a poll": {
			roundInput{bundle: b, polled: true, storeFailed: true, proven: true}, roundActions{postponed: true},
		},
		"content store failed without a poll": {
			roundInput{bundle: b, storeFailed: true, fetching: true, proven: true}, roundActions{},
		},
		"takeover undone, runtime released": {
			roundInput{bundle: released, proven: true}, roundActions{sync: syncAll, report: true},
		},
		"unproven image that bundles can replace": {
			roundInput{bundle: b, managesImage: true}, roundActions{
				sync: syncAll, report: true, status: true, upgrade: true, requeueAfter: upgrade.Trial,
			},
		},
		"unproven image that bundles cannot replace": {
			roundInput{bundle: b}, roundActions{sync: syncAll, report: true, status: true, upgrade: true},
		},
		"postponed work without a bundle": {
			roundInput{postponed: true, proven: true}, roundActions{postponed: true, report: true, status: true},
		},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, decideRound(c.facts)) })
	}
}
