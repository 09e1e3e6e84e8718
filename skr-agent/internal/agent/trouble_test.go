package agent

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/round"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/objects"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/pull"
)

func TestReportListsFailedObjectsAndReason(t *testing.T) {
	require.Nil(t, summarizeTrouble(nil, nil, nil, nil, nil))

	refused := objects.Failure{
		Kind: "ModuleTemplate",
		Name: "keda-1.0.0",
		Err:  errors.New("create ModuleTemplate kyma-system/keda-1.0.0: denied by a tenant"),
	}
	one := summarizeTrouble(nil, nil, []objects.Failure{refused})
	require.Equal(t,
		bundle.ReportedTrouble{Reason: v1beta2.ReasonObjectRefused, Message: refused.Err.Error(), Catalog: true}, *one)

	var many []objects.Failure
	for i := range 20 {
		many = append(
			many,
			objects.Failure{
				Kind: "Manifest",
				Name: fmt.Sprint("m", i),
				Err:  fmt.Errorf("m%d is denied: %s", i, strings.Repeat("x", 1000)),
			},
		)
	}
	all := summarizeTrouble(nil, nil, many, errors.New("prune"))
	require.Contains(t, all.Message,
		"20 objects could not be written (Manifest m0, Manifest m1, Manifest m2, and 17 more): m0 is denied")
	require.LessOrEqual(t, len(all.Message), bundle.MaxMessageBytes)
	require.False(t, all.Catalog)

	leaking := objects.Failure{Kind: "Secret", Name: "app", Err: errors.New("webhook: dial amqp://a:hunter2@host")}
	require.Equal(t, "webhook: dial amqp://[masked]@host",
		summarizeTrouble(nil, nil, []objects.Failure{leaking}).Message)

	notKept := fmt.Errorf("bundle %w: %w", pull.ErrNotStored,
		fmt.Errorf("store content: %w", errors.New("exceeded quota")))
	stored := summarizeTrouble(notKept, errors.New("entry keda"), many)
	require.Equal(t, v1beta2.ReasonStorageRefused, stored.Reason)
	require.Contains(t, stored.Message,
		"allow it to write Secrets in kyma-system (a quota, admission policy or webhook refuses them): exceeded quota")

	unreadable := summarizeTrouble(nil, errors.New("entry keda"), nil)
	require.Equal(t, v1beta2.ReasonPinsUnreadable, unreadable.Reason)
	require.Equal(t,
		"Kyma kyma-system/default: entry keda; its previous request applies until this is corrected",
		unreadable.Message)
}

func TestTenantPolicyDenialDoesNotFailTheAgentImage(t *testing.T) {
	for text, want := range map[string]bool{
		`moduletemplates "a" is forbidden: ValidatingAdmissionPolicy 'x' with binding 'x' denied request: no`: false,
		`admission webhook "x" denied the request: no`:                                                        false,
		`secrets "a" is forbidden: exceeded quota: x`:                                                         false,
		`moduletemplates "a" is forbidden: User "agent" cannot update resource`:                               true,
		`Manifest "a" is invalid: spec.version: required`:                                                     true,
	} {
		require.Equal(t, want, canBeAgentFault(errors.New(text)), text)
	}
	require.False(t, canBeAgentFault(fmt.Errorf("%w: a label", guard.ErrExposed)))
	unresponsive := apierrors.NewInternalError(errors.New(`failed calling webhook "x": connection refused`))
	require.False(t, canBeAgentFault(fmt.Errorf("apply Manifest a: %w", unresponsive)))
}

func TestOnlyOwnAndRegistryFailuresEndATrial(t *testing.T) {
	denied := fmt.Errorf("bundle %w: %w", pull.ErrNotStored, errors.New(`secrets "a" is forbidden: exceeded quota: x`))
	for name, c := range map[string]struct {
		change        func(*Agent, *roundRun)
		own, registry bool
	}{
		"no failure":   {func(*Agent, *roundRun) {}, false, false},
		"round failed": {func(_ *Agent, p *roundRun) { p.errs = []error{errors.New("timeout")} }, true, false},
		"policy denies a step of the round": {
			func(_ *Agent, p *roundRun) { p.errs = []error{errors.New("policy 'x' denied request: no")} }, false, false,
		},
		"quota refuses the bundle": {func(a *Agent, _ *roundRun) { a.pollFailed, a.storeErr = true, denied }, false, false},
		"bundle cannot be stored": {
			func(a *Agent, _ *roundRun) { a.pollFailed, a.storeErr = true, pull.ErrNotStored }, true, false,
		},
		"poll failed":              {func(a *Agent, _ *roundRun) { a.pollFailed = true }, false, true},
		"report was not delivered": {func(a *Agent, _ *roundRun) { a.delivery.failed = true }, false, true},
		"quota refuses an object": {
			func(_ *Agent, p *roundRun) { p.written.Failures = []objects.Failure{{Err: denied}} }, false, false,
		},
		"API server refuses an object": {
			func(_ *Agent, p *roundRun) { p.written.Failures = []objects.Failure{{Err: errors.New("no")}} }, true, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			now := trusttest.Now
			a := newAgent(Options{Now: func() time.Time { return now }})
			a.delivery.content = "report"
			p := &roundRun{}
			c.change(a, p)
			require.Zero(t, a.recordTrial(p))
			now = now.Add(time.Minute)
			require.Equal(t, c.own || c.registry, a.recordTrial(p) == 0)
			require.Equal(t, c.own, a.trial.ownFailure.Load())
			require.Equal(t, c.registry, a.trial.registryFailure.Load())
		})
	}
}

// The deadline of a new image can end while its first bundle is fetched over a slow link.
func TestSlowFetchDoesNotFailTheAgentImage(t *testing.T) {
	for state, want := range map[round.State]bool{round.Fetching: true, round.Applied: false} {
		a := newAgent(Options{Now: time.Now, Puller: pull.New(pull.Options{Now: time.Now})})
		a.endRound(t.Context(), &roundRun{log: logr.Discard()}, state)
		require.Equal(t, want, a.trial.registryFailure.Load(), state)
		require.False(t, a.trial.ownFailure.Load(), state)
	}
}

func TestRefusedManifestSetsItsModulesReason(t *testing.T) {
	content := map[string]error{"keda": errors.New("no content")}
	all := withRefused(content, []objects.Failure{
		{
			Kind:   "Manifest",
			Module: "keda",
			Err:    errors.New("refused"),
		}, {Kind: "Manifest", Module: "nats", Err: errors.New("refused")}, {Kind: "Kyma", Err: errors.New("refused")},
	})
	require.EqualError(t, all["keda"], "no content")
	require.EqualError(t, all["nats"], "refused")
	require.Len(t, all, 2)
	require.Len(t, content, 1, "withRefused must not change its argument")
}
