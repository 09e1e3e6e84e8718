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
	checkOfBundle     = "bundle"
	checkOfMemory     = "memory of the agent"
	checkOfEnrollment = "enrollment"
)

// seen is the agent's state for verifying a bundle. The thumbprint of its key and the cluster's UID are "" if
// unreadable.
type seen struct {
	known           bootstrap
	thumbprint, uid string
}

// puller returns the code of the agent's rounds that reads the registry, with the agent's key, cluster and state. It
// stores nothing.
func (f *checkFlags) puller(
	reader client.Client, installed store.Store, registries *store.Registries, s seen,
) *pull.Puller {
	return pull.New(pull.Options{
		Mirrors: f.mirrors, Place: installed, Registries: registries, Client: reader,
		Namespace: v1beta2.RuntimeNamespace, Preview: true, Now: time.Now,
		Store: contentstore.New(reader, reader, v1beta2.RuntimeNamespace),
		Trust: bundle.Trust{
			Root:          s.known.root,
			Runtime:       s.known.runtime,
			ClusterUID:    s.uid,
			KeyThumbprint: s.thumbprint,
			ClockSkew:     f.run.skew,
			Assigned:      s.known.assigned,
		},
		Replace: s.known.replace,
	})
}

// judge reads the registry. restored is the error of restoring the agent's state.
func judge(ctx context.Context, puller *pull.Puller, restored error, s seen) []preflight.Finding {
	changed, err := puller.Pull(ctx)
	const renew = "sign a newer root of trust in the control plane, publish, and enroll the runtime again if it is " +
		"far behind"
	findings := []preflight.Finding{
		preflight.Root("the trust settings of this runtime", puller.Root(), renew, time.Now()),
	}
	if restored != nil {
		findings = append(findings, judgeMemory(restored))
	}
	findings = append(findings, judgeRoots(puller.Refused())...)
	unknown := s.unknown(restored)
	findings = append(findings, judgeBundle(
		puller.Location().String(), s.known.runtime, unknown, puller.Current(), changed, err))
	return append(findings, judgeEnrollment(puller.Current(), puller.Root(), s, unknown, time.Now()))
}

// unknown lists the unreadable parts of the agent's state, "" for none. Verifying without them could accept a bundle
// that the agent refuses.
func (s seen) unknown(restored error) string {
	switch {
	case s.thumbprint == "":
		return "the agent's key"
	case s.uid == "":
		return "the UID of the cluster"
	case manager.IsPassing(restored): // the agent waits until it is readable
		return "the agent's memory"
	}
	return ""
}

// judgeMemory reports that the agent's state could not be restored. The agent continues without the damaged part.
func judgeMemory(err error) preflight.Finding {
	if manager.IsPassing(err) {
		return preflight.Fail(checkOfMemory, err.Error(), readAdvice)
	}
	return preflight.Warn(checkOfMemory, err.Error(),
		"installed modules stay; the agent takes the next bundle from the registry")
}

// judgeRoots fails for invalid roots of trust in the registry. Agents keep their current root.
func judgeRoots(refused []bundle.RefusedBundle) []preflight.Finding {
	var findings []preflight.Finding
	for _, r := range refused {
		if r.Reason.AboutRoot() {
			findings = append(findings,
				preflight.Fail("root of trust in the registry", r.Detail,
					"see docs/guides/troubleshooting.md; or the location is another fleet's"))
		}
	}
	return findings
}

// judgeBundle reports the verdict on the newest bundle. changed reports that it replaces the bundle in force.
func judgeBundle(place, runtime, unknown string, current *bundle.Bundle, changed bool, err error) preflight.Finding {
	switch {
	case errors.As(err, new(*intake.MissingError)):
		return preflight.Fail(checkOfBundle, place+": "+err.Error(),
			"the publisher writes it again while it runs; or carry it here")
	case errors.Is(err, store.ErrNotFound):
		return preflight.Warn(checkOfBundle, fmt.Sprintf("%s has none of runtime %s", place, runtime),
			"create the Kyma of this runtime id in the control plane; or the id is wrong")
	case refusal.Of(err) != nil:
		return preflight.Fail(checkOfBundle, err.Error(), "see docs/guides/troubleshooting.md")
	case apierrors.ReasonForError(err) != "": // the installed modules are unreadable
		return preflight.Fail(checkOfBundle, "not known: "+err.Error(),
			"check as the agent, with --as system:serviceaccount:"+v1beta2.RuntimeNamespace+":skr-agent")
	case err != nil:
		return preflight.Registry(checkOfBundle, place, "", err)
	case unknown != "":
		return preflight.Warn(checkOfBundle, "not known whether it would be accepted: "+unknown+" could not be read",
			readAdvice)
	case changed:
		return preflight.Pass(checkOfBundle, fmt.Sprintf("%d would be accepted", current.Statement.Predicate.Sequence))
	}
	return preflight.Pass(checkOfBundle,
		fmt.Sprintf("%d was accepted and is in force", current.Statement.Predicate.Sequence))
}

// judgeEnrollment reports whether the control plane can verify the agent's reports, by the bundle that would be in
// force. Without a bundle this is unknown, and it gives no advice.
func judgeEnrollment(inForce *bundle.Bundle, root trust.Root, s seen, unknown string, now time.Time) preflight.Finding {
	switch {
	case s.thumbprint == "":
		return preflight.Warn(checkOfEnrollment, "not known: "+unknown+" could not be read", "")
	case inForce == nil:
		return preflight.Warn(
			checkOfEnrollment,
			"not known: without a bundle, the key that the control plane knows is not known; "+
				introduction(s.known.token, now),
			"",
		)
	}
	if why := agent.Unenrolled(*inForce, root, s.known.runtime, s.thumbprint, s.known.token, now); why != "" {
		return preflight.Fail(checkOfEnrollment, why, "")
	}
	switch p := inForce.Statement.Predicate; {
	case p.Audience.KeyThumbprint == s.thumbprint:
		return preflight.Pass(checkOfEnrollment, "the control plane knows the agent's key")
	case p.KymaUID == "":
		return preflight.Pass(checkOfEnrollment, "the bundle was published without a control plane, which needs none")
	}
	return preflight.Pass(checkOfEnrollment, introduction(s.known.token, now))
}

// introduction describes the token that introduces the agent's key.
func introduction(token *trust.Token, now time.Time) string {
	switch {
	case token == nil:
		return "no token introduces the agent's key"
	case !now.Before(token.Expires):
		return "the token to introduce the agent's key expired at " + token.Expires.UTC().Format(time.RFC3339)
	}
	return "a token introduces the agent's key until " + token.Expires.UTC().Format(time.RFC3339)
}
