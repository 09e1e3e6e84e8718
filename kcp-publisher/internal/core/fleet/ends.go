package fleet

import (
	"fmt"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

const (
	// rootWarning is the time before the expiry of the root of trust at which the warning starts. The publisher also
	// logs the expiry from that time on.
	rootWarning = 30 * 24 * time.Hour
	// certificateShare defines when the warning about an expiring certificate starts: in the last third (1/3) of the
	// certificate's validity. Agents renew certificates earlier.
	certificateShare = 3
	// certificatesNamed is the maximum number of runtimes that a warning about certificates lists by name.
	certificatesNamed = 3
)

// RootEnds returns a warning if the root of trust has expired or expires within rootWarning. It returns nil if the
// expiry is later or unknown.
func RootEnds(at, now time.Time) *Cause {
	switch {
	case at.IsZero() || at.Sub(now) >= rootWarning:
		return nil
	case !now.Before(at):
		return &Cause{
			Situation: RootExpired, Message: "the root of trust expired at " + at.UTC().Format(time.RFC3339),
			Advice: byName[RootExpired].Advice,
		}
	}
	return &Cause{
		Situation: RootExpiresSoon, Message: "the root of trust expires at " + at.UTC().Format(time.RFC3339),
		Advice: byName[RootExpiresSoon].Advice,
	}
}

// certificatesEnd returns a message that lists reporting runtimes whose agent certificates have expired or expire soon,
// or "". It includes runtimes that are listed with another problem.
func certificatesEnd(in Input) string {
	var names []string
	all := 0
	for i := range in.Kymas {
		kyma := &in.Kymas[i]
		if !plan.Reports(kyma) || plan.Skipped(kyma) || !kyma.DeletionTimestamp.IsZero() ||
			certificateEnds(&known{kyma: kyma, now: in.Now}) == nil {
			continue
		}
		if all++; all <= certificatesNamed {
			names = append(names, line(plan.RuntimeID(kyma)))
		}
	}
	if all == 0 {
		return ""
	}
	if all > certificatesNamed {
		names = append(names, fmt.Sprintf("%d others", all-certificatesNamed))
	}
	return fmt.Sprintf("%d agent certificates have expired or expire soon (%s)", all, strings.Join(names, ", "))
}

// certificateEnds finds a certificate that was not renewed in time. Agents request a renewal after the first third of
// the validity.
func certificateEnds(k *known) *found {
	published := k.published()
	if k.one || published == nil || published.Certificate == nil {
		return nil
	}
	from, until := published.Certificate.NotBefore.Time, published.Certificate.NotAfter.Time
	renewal := until.Add(-until.Sub(from) / certificateShare)
	switch {
	case !until.After(from) || k.now.Before(renewal):
		return nil
	case !k.now.Before(until):
		return &found{
			situation: CertificateExpired, since: until, message: "the agent's certificate expired at " +
				until.UTC().Format(time.RFC3339),
		}
	}
	return &found{
		situation: CertificateExpiresSoon, since: renewal, message: "the agent's certificate expires at " +
			until.UTC().Format(time.RFC3339) + ", and was not renewed",
	}
}
