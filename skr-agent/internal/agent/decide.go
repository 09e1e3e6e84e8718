package agent

import (
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
)

// minRound is the minimum time until a round that no event starts.
const minRound = 10 * time.Millisecond

// nextRound returns the time until the next round: the time until the next poll, or the shortest of the other times
// above 0.
func nextRound(untilPoll time.Duration, others ...time.Duration) time.Duration {
	next := untilPoll
	if other := shortest(others...); other > 0 {
		next = min(next, other)
	}
	return max(next, minRound)
}

// shortest returns the shortest of the durations above 0, and 0 for none.
func shortest(durations ...time.Duration) time.Duration {
	var found time.Duration
	for _, d := range durations {
		if d > 0 && (found == 0 || d < found) {
			found = d
		}
	}
	return found
}

// settingsOf returns the settings of a bundle, which can be nil.
func settingsOf(b *bundle.Bundle) bundle.Settings {
	if b == nil {
		return bundle.Settings{}
	}
	return b.State.Settings
}

// delivery is the outcome of the last report.
type delivery struct {
	// sent is the content of the last delivered report, "" before the first.
	sent string
	// at is the time of the last attempt, and down whether it failed.
	at   time.Time
	down bool
}

// isNeeded reports whether to deliver a report now: its content changed, or the report interval is over. A failed
// delivery is retried after the poll interval.
func (d delivery) isNeeded(content string, now time.Time, reportInterval, pollInterval time.Duration) bool {
	if d.down && now.Before(d.at.Add(pollInterval)) {
		return false
	}
	return content != d.sent || now.Sub(d.at) >= reportInterval
}

// after returns the outcome after another attempt.
func (d delivery) after(content string, now time.Time, err error) delivery {
	if err != nil {
		return delivery{sent: d.sent, at: now, down: true}
	}
	return delivery{sent: content, at: now}
}

// known reports whether the control plane has the agent's key: the bundle in force contains it, and no newer bundle was
// refused as another agent's. A control plane that was restored from a backup has a previous key, and the agent
// introduces its own again.
func known(inForce *bundle.Bundle, thumbprint string, refused []bundle.RefusedBundle) bool {
	return inForce != nil && inForce.Statement.Predicate.Audience.KeyThumbprint == thumbprint &&
		!slices.ContainsFunc(refused, func(r bundle.RefusedBundle) bool { return r.Reason == refusal.WrongCluster })
}

// unenrolled returns the reason why the control plane cannot verify the agent's reports, "" if it can or this is
// unknown. The statement of the bundle in force contains the key that the control plane has. An agent with another key
// needs a certificate or a token.
func unenrolled(p bundle.Predicate, thumbprint string, certified bool, token *trust.Token, now time.Time) string {
	if p.KymaUID == "" || p.Audience.KeyThumbprint == thumbprint || certified ||
		token != nil && now.Before(token.Expires) {
		return ""
	}
	why := "it has no token to enroll with"
	if token != nil {
		why = "the token to introduce it expired at " + token.Expires.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf(
		"by the bundle in force, the control plane does not know this agent's key %s. The key has no valid "+
			"certificate, and %s: run `kcp-publisher enroll %s` there, and apply its output here",
		trust.ShortThumbprint(thumbprint),
		why,
		p.Audience.Runtime,
	)
}

// Unenrolled returns the reason why the control plane cannot verify the reports of an agent with this key, "" if it
// can. It uses the bundle in force and the root of trust, like the agent.
func Unenrolled(
	inForce bundle.Bundle, root trust.Root, runtime, thumbprint string, token *trust.Token, now time.Time,
) string {
	p := inForce.Statement.Predicate
	certificate, err := certificateOf(p, root, runtime, thumbprint, now)
	return unenrolled(p, thumbprint, certificate != nil && err == nil, token, now)
}

// certificateOf returns the certificate in a statement, nil for none. The error is the reason why it is not valid for
// this key.
func certificateOf(
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
		return nil, errors.New("certificate: is for another key than this agent's")
	}
	return &certificate, nil
}

// contentsOf identifies all contents of a state: module, repository and digest of each.
func contentsOf(state bundle.DesiredState) string {
	names := "staged"
	for _, m := range state.All() {
		for _, c := range m.Content {
			names += " " + m.Module + " " + c.Repository + " " + c.Digest.String()
		}
	}
	return names
}

// contentOf returns the digests that a Manifest refers to: the digests of its spec, and the digests of the applied
// version, which stays while the spec is refused.
func contentOf(m *v1beta2.Manifest) []digest.Digest {
	versions := []v1beta2.AppliedVersion{m.Wanted()}
	if applied := m.Applied(); applied != nil {
		versions = append(versions, *applied)
	}
	var found []digest.Digest
	for _, version := range versions {
		var source v1beta2.ImageSpec
		if err := json.Unmarshal(version.Install.Source.Raw, &source); err != nil {
			continue // the installer reports the error
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
