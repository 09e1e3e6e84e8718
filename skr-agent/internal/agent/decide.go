package agent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// bundleSettings returns a bundle's settings. The bundle can be nil.
func bundleSettings(b *bundle.Bundle) bundle.Settings {
	if b == nil {
		return bundle.Settings{}
	}
	return b.State.Settings
}

func (a *Agent) pollInterval() time.Duration {
	return cmp.Or(bundleSettings(a.Puller.Current()).PollInterval.Duration, a.PollInterval)
}

func (a *Agent) reportInterval() time.Duration {
	return cmp.Or(bundleSettings(a.Puller.Current()).ReportInterval.Duration, a.ReportInterval)
}

// delivery is the result of the last attempt to send a report.
type delivery struct {
	// content is the content of the last sent report. It is empty before the first report.
	content string
	// attemptedAt is the time of the last attempt. failed is true if this attempt failed.
	attemptedAt time.Time
	failed      bool
}

// isNeeded returns true if the agent must send a report now, because the content changed or the report interval has
// passed. After a failed attempt, it returns false until the poll interval has passed.
func (d delivery) isNeeded(content string, now time.Time, reportInterval, pollInterval time.Duration) bool {
	if d.failed && now.Before(d.attemptedAt.Add(pollInterval)) {
		return false
	}
	return content != d.content || now.Sub(d.attemptedAt) >= reportInterval
}

// afterAttempt returns the new delivery after an attempt to send a report. err is the attempt's error.
func (d delivery) afterAttempt(content string, now time.Time, err error) delivery {
	if err != nil {
		return delivery{content: d.content, attemptedAt: now, failed: true}
	}
	return delivery{content: content, attemptedAt: now}
}

// keyFacts contains the facts that decide whether the agent enrolls its key again.
type keyFacts struct {
	thumbprint string
	// current is the last accepted bundle, or nil. refused contains the newer bundles that the agent refused.
	current *bundle.Bundle
	refused []bundle.RefusedBundle
	// isReassigned is true if an operator assigned the runtime again with a new bootstrap Secret.
	isReassigned bool
	// twin is the instance ID of a second agent with the same key, or empty. isConfirmed is true if enough polls
	// found no second agent.
	twin        string
	isConfirmed bool
}

// mustEnroll reports whether the report must contain the enrollment, because the control plane may not have the agent's
// key.
//
// If the last accepted bundle is for this key, the control plane had the key. If a newer bundle is for a different key,
// the control plane has lost the key, for example after a restore from a backup. In this case, a copy of this cluster
// could enroll first and replace the original cluster's enrollment request. Therefore, the agent first waits until it
// is confirmed as the only agent with its key. An agent with a twin does not read bundles, so it always sends the
// enrollment, together with the twin.
func (k keyFacts) mustEnroll() bool {
	switch {
	case k.isReassigned, k.current == nil, k.current.Statement.Predicate.Audience.KeyThumbprint != k.thumbprint,
		k.twin != "":
		return true
	}
	return k.isConfirmed &&
		slices.ContainsFunc(k.refused, func(r bundle.RefusedBundle) bool { return r.Reason == refusal.WrongCluster })
}

// enrollmentProblem returns the reason why the control plane cannot verify the agent's reports. It returns "" if the
// control plane can verify them.
func enrollmentProblem(
	p bundle.Predicate, thumbprint string, certified bool, token *trust.Token, now time.Time,
) string {
	if p.KymaUID == "" || p.Audience.KeyThumbprint == thumbprint || certified ||
		token != nil && now.Before(token.Expires) {
		return ""
	}
	why := "no enrollment token"
	if token != nil {
		why = "its enrollment token expired at " + token.Expires.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf(
		"the last accepted bundle does not contain this agent's key %s, and the agent has no valid certificate and "+
			"%s: run `kcp-publisher enroll %s` in the control plane and apply its output in the runtime",
		trust.ShortThumbprint(thumbprint),
		why,
		p.Audience.Runtime,
	)
}

// EnrollmentProblem returns the reason why the control plane cannot verify reports that are signed with this key. It
// returns "" if the control plane can verify them.
func EnrollmentProblem(
	current bundle.Bundle, root trust.Root, runtime, thumbprint string, token *trust.Token, now time.Time,
) string {
	p := current.Statement.Predicate
	certificate, err := findCertificate(p, root, runtime, thumbprint, now)
	return enrollmentProblem(p, thumbprint, certificate != nil && err == nil, token, now)
}

// findCertificate returns the certificate in a signed statement, or nil if the statement does not contain one. It
// returns an error for a certificate that is not valid for this key.
func findCertificate(
	p bundle.Predicate, root trust.Root, runtime, thumbprint string, now time.Time,
) (*trust.Certificate, error) {
	if p.Certificate == "" {
		return nil, nil
	}
	certificate, err := root.CheckCertificate(p.Certificate, runtime, now)
	if err != nil {
		return nil, err
	}
	if certificate.Thumbprint != thumbprint {
		return nil, errors.New("the certificate was issued for another agent's key")
	}
	return &certificate, nil
}

// contentsKey returns a key that is equal for bundles whose modules have the same content.
func contentsKey(state bundle.DesiredState) string {
	names := "staged"
	for _, m := range state.All() {
		for _, c := range m.Content {
			names += " " + m.Module + " " + c.Repository + " " + c.Digest.String()
		}
	}
	return names
}

// contentDigests returns the digests of the content that a Manifest refers to: the chart and overlay for the requested
// version, and for the applied version.
func contentDigests(m *v1beta2.Manifest) []digest.Digest {
	versions := []record.AppliedVersion{record.RequestedVersion(m)}
	if applied := record.ReadUnverified(m).Applied; applied != nil {
		versions = append(versions, *applied)
	}
	var found []digest.Digest
	for _, version := range versions {
		var source v1beta2.ImageSpec
		if err := json.Unmarshal(version.Install.Source.Raw, &source); err != nil {
			continue // the installer reports the invalid source
		}
		named := []string{source.Ref}
		if version.Config != nil {
			named = append(named, version.Config.Ref)
		}
		for _, ref := range named {
			if d := digest.Digest(ref); d.Validate() == nil {
				found = append(found, d)
			}
		}
	}
	return found
}
