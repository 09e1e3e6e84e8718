package fleet

import (
	"fmt"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

const (
	// rootWarning is the time before the expiry of the root of trust at which a warning begins. The publisher logs at
	// the same time.
	rootWarning = 30 * 24 * time.Hour
	// certificateShare: a warning begins in the last third of a certificate's validity. The first two thirds are for
	// its renewal.
	certificateShare = 3
	// certificatesNamed is the number of runtimes in a warning about certificates.
	certificatesNamed = 3
)

// RootEnds returns the cause for a root of trust that has expired or expires soon. It returns nil for any other or
// unknown expiry.
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

// certificatesEnd returns a message with the reporting runtimes whose agents' certificates have expired or expire soon,
// or "". It includes runtimes with other causes, because they can lose their certificates too.
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

// certificateEnds checks for a certificate that was not renewed in time. Agents request renewal after a third of its
// validity.
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
