package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/manager"
	"github.com/kyma-pull/kyma-pull/internal/preflight"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/agent"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/contentstore"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/intake"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/pull"
)

const (
	bundleCheckName     = "bundle"
	stateCheckName      = "state of the agent"
	enrollmentCheckName = "enrollment"
)

// agentState is the state of the agent that the check could read from the cluster. An unreadable key is nil, and an
// unreadable thumbprint or cluster UID is "".
type agentState struct {
	bootstrap       bootstrap
	key             trust.Signer
	thumbprint, uid string
}

// newPuller returns a Puller that verifies bundles as the agent does, but does not store them.
func (f *checkFlags) newPuller(
	reader client.Client, installed store.Store, registries *store.Registries, s agentState,
) *pull.Puller {
	return pull.New(pull.Options{
		Mirrors: f.mirrors, ConfiguredLocation: installed, Registries: registries, Client: reader,
		Namespace: v1beta2.RuntimeNamespace, Preview: true, Now: time.Now, Key: s.key,
		Store: contentstore.NewReader(reader, v1beta2.RuntimeNamespace),
		Trust: bundle.Trust{
			Root:          s.bootstrap.root,
			Runtime:       s.bootstrap.runtime,
			ClusterUID:    s.uid,
			KeyThumbprint: s.thumbprint,
			ClockSkew:     f.run.skew,
			Assigned:      s.bootstrap.assigned,
		},
		AllowsMove: s.bootstrap.allowsMove,
	})
}

// checkBundle pulls the newest bundle and returns findings. restored is the error from restoring the agent's state.
func checkBundle(ctx context.Context, puller *pull.Puller, restored error, s agentState) []preflight.Finding {
	changed, err := puller.Pull(ctx)
	const renew = "sign a newer root of trust in the control plane, publish, and enroll the runtime again if it is " +
		"far behind"
	findings := []preflight.Finding{
		preflight.Root("the trust settings of this runtime", puller.Root(), renew, time.Now()),
	}
	if restored != nil {
		findings = append(findings, stateFinding(restored))
	}
	findings = append(findings, rootFindings(puller.RefusedBundles())...)
	unknown := s.unreadablePart(restored)
	findings = append(findings, bundleFinding(
		puller.Location().String(), s.bootstrap.runtime, unknown, puller.Current(), changed, err))
	return append(findings, enrollmentFinding(puller.Current(), puller.Root(), s, unknown, time.Now()))
}

// unreadablePart returns the name of a part of the agent's state that could not be read, or "" if all parts were read.
// If a part is missing, the check could accept a bundle that the agent refuses.
func (s agentState) unreadablePart(restored error) string {
	switch {
	case s.thumbprint == "":
		return "the agent's key"
	case s.uid == "":
		return "the UID of the cluster"
	case manager.IsTemporary(restored): // the state exists but could not be read now
		return "the agent's state"
	}
	return ""
}

// stateFinding returns the finding for agent state that could not be restored.
func stateFinding(err error) preflight.Finding {
	if manager.IsTemporary(err) {
		return preflight.Fail(stateCheckName, err.Error(), readAdvice)
	}
	return preflight.Warn(stateCheckName, err.Error(),
		"installed modules stay; the agent takes the next bundle from the registry")
}

// rootFindings returns a failure for each invalid root of trust in the registry.
func rootFindings(refused []bundle.RefusedBundle) []preflight.Finding {
	var findings []preflight.Finding
	for _, r := range refused {
		if r.Reason.AboutRoot() {
			findings = append(findings,
				preflight.Fail("root of trust in the registry", r.Detail,
					"see docs/guides/troubleshooting.md, or correct the location if it belongs to another fleet"))
		}
	}
	return findings
}

// bundleFinding returns the finding for the newest bundle. current is the last accepted bundle. changed is true if the
// newest bundle can replace it.
func bundleFinding(
	place, runtime, unreadable string, current *bundle.Bundle, changed bool, err error,
) preflight.Finding {
	switch {
	case errors.As(err, new(*intake.MissingError)):
		return preflight.Fail(bundleCheckName, place+": "+err.Error(),
			"wait until the running publisher writes it again, or import an exported file into the registry")
	case errors.Is(err, store.ErrNotFound):
		return preflight.Warn(bundleCheckName, fmt.Sprintf("%s has no bundle for runtime %s", place, runtime),
			"create the Kyma of this runtime in the control plane, or correct the runtime ID")
	case refusal.Of(err) != nil:
		return preflight.Fail(bundleCheckName, err.Error(), "see docs/guides/troubleshooting.md")
	case apierrors.ReasonForError(err) != "": // the API server did not return the installed modules
		return preflight.Fail(bundleCheckName, "failed to verify the bundle: "+err.Error(),
			"check as the agent, with --as system:serviceaccount:"+v1beta2.RuntimeNamespace+":skr-agent")
	case err != nil:
		return preflight.Registry(bundleCheckName, place, "", err)
	case unreadable != "":
		return preflight.Warn(bundleCheckName, "not completely verified: "+unreadable+" could not be read", readAdvice)
	case changed:
		return preflight.Pass(bundleCheckName,
			fmt.Sprintf("bundle %d would be accepted", current.Statement.Predicate.Sequence))
	}
	return preflight.Pass(bundleCheckName,
		fmt.Sprintf("bundle %d was accepted and is in force", current.Statement.Predicate.Sequence))
}

// enrollmentFinding returns the finding for the agent's enrollment. current is the newest bundle that the agent would
// accept. Without a bundle, the finding is a warning.
func enrollmentFinding(
	current *bundle.Bundle, root trust.Root, s agentState, unreadable string, now time.Time,
) preflight.Finding {
	switch {
	case s.thumbprint == "":
		return preflight.Warn(enrollmentCheckName, "not verified: "+unreadable+" could not be read", "")
	case current == nil:
		return preflight.Warn(
			enrollmentCheckName,
			"not verified: without a bundle, the agent's key in the control plane is unknown; "+
				describeToken(s.bootstrap.token, now),
			"",
		)
	}
	if why := agent.EnrollmentProblem(*current, root, s.bootstrap.runtime, s.thumbprint, s.bootstrap.token,
		now); why != "" {
		return preflight.Fail(enrollmentCheckName, why, "")
	}
	switch p := current.Statement.Predicate; {
	case p.Audience.KeyThumbprint == s.thumbprint:
		return preflight.Pass(enrollmentCheckName, "the control plane knows the agent's key")
	case p.KymaUID == "":
		return preflight.Pass(enrollmentCheckName,
			"not needed: the bundle was published without a control plane")
	}
	return preflight.Pass(enrollmentCheckName, describeToken(s.bootstrap.token, now))
}

// describeToken describes the token that proves the agent's key to the control plane.
func describeToken(token *trust.Token, now time.Time) string {
	switch {
	case token == nil:
		return "the agent has no enrollment token for its key"
	case !now.Before(token.Expires):
		return "the agent's enrollment token for its key expired at " + token.Expires.UTC().Format(time.RFC3339)
	}
	return "the agent has an enrollment token for its key, valid until " + token.Expires.UTC().Format(time.RFC3339)
}
