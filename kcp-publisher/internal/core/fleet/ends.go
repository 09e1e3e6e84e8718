package fleet

import (
	"fmt"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

const (
	// rootWarning is the time before the expiry of the root of trust during which the fleet has a warning.
	rootWarning = 30 * 24 * time.Hour
	// A runtime has a warning in the last third (1/certificateShare) of its certificate's lifetime. Agents normally
	// renew certificates earlier.
	certificateShare     = 3
	maxNamedCertificates = 3
)

// RootExpiryWarning returns a warning if the root of trust has expired or expires within rootWarning, or nil.
func RootExpiryWarning(expiry, now time.Time) *Cause {
	switch {
	case expiry.IsZero() || expiry.Sub(now) >= rootWarning:
		return nil
	case !now.Before(expiry):
		return &Cause{
			Situation: RootExpired, Message: "the root of trust expired at " + expiry.UTC().Format(time.RFC3339),
			Advice: byName[RootExpired].Advice,
		}
	}
	return &Cause{
		Situation: RootExpiresSoon, Message: "the root of trust expires at " + expiry.UTC().Format(time.RFC3339),
		Advice: byName[RootExpiresSoon].Advice,
	}
}

// certificatesMessage returns a message about reporting runtimes with agent certificates that have expired or expire
// soon. If all certificates remain valid, it returns "".
func certificatesMessage(in Input) string {
	var names []string
	all := 0
	for i := range in.Kymas {
		kyma := &in.Kymas[i]
		if !plan.IsReporting(kyma) || plan.IsSkipped(kyma) || !kyma.DeletionTimestamp.IsZero() ||
			findCertificateExpiry(&kymaState{kyma: kyma, now: in.Now}) == nil {
			continue
		}
		if all++; all <= maxNamedCertificates {
			names = append(names, cleanLine(plan.RuntimeID(kyma)))
		}
	}
	if all == 0 {
		return ""
	}
	if all > maxNamedCertificates {
		names = append(names, fmt.Sprintf("%d others", all-maxNamedCertificates))
	}
	return fmt.Sprintf("%d agent certificates have expired or expire soon (%s)", all, strings.Join(names, ", "))
}

// findCertificateExpiry finds an agent certificate that was not renewed in time.
func findCertificateExpiry(k *kymaState) *finding {
	published := k.published()
	if k.isSingle || published == nil || published.Certificate == nil {
		return nil
	}
	from, until := published.Certificate.NotBefore.Time, published.Certificate.NotAfter.Time
	renewal := until.Add(-until.Sub(from) / certificateShare)
	switch {
	case !until.After(from) || k.now.Before(renewal):
		return nil
	case !k.now.Before(until):
		return &finding{
			situation: CertificateExpired, startedAt: until, message: "the agent's certificate expired at " +
				until.UTC().Format(time.RFC3339),
		}
	}
	return &finding{
		situation: CertificateExpiresSoon, startedAt: renewal, message: "the agent's certificate expires at " +
			until.UTC().Format(time.RFC3339) + ", and was not renewed",
	}
}
