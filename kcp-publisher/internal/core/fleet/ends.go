package fleet

import (
	"fmt"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

const (
	// rootWarning is how long before its end a root of trust is a warning, as the publisher logs it.
	rootWarning = 30 * 24 * time.Hour
	// certificateShare is of how many parts of a certificate's life the last one is left when it is a warning: two of
	// three are for its renewal.
	certificateShare = 3
	// certificatesNamed is how many runtimes a warning about certificates names.
	certificatesNamed = 3
)

// RootEnds is about a root of trust that has expired or expires soon, nil for another one and where nobody knows.
func RootEnds(at, now time.Time) *Cause {
	switch {
	case at.IsZero() || at.Sub(now) >= rootWarning:
		return nil
	case !now.Before(at):
		return &Cause{RootExpired, "the root of trust expired at " + at.UTC().Format(time.RFC3339), byName[RootExpired].Advice}
	}
	return &Cause{RootExpiresSoon, "the root of trust expires at " + at.UTC().Format(time.RFC3339), byName[RootExpiresSoon].Advice}
}

// certificatesEnd names the runtimes that report and whose agents' certificates have expired or expire soon; empty for
// none. What is in a runtime's way besides is its own: one that fails for something else may lose its certificate too.
func certificatesEnd(in Input) string {
	var names []string
	all := 0
	for i := range in.Kymas {
		kyma := &in.Kymas[i]
		if !plan.Reports(kyma) || plan.Skipped(kyma) || !kyma.DeletionTimestamp.IsZero() || certificateEnds(&known{kyma: kyma, now: in.Now}) == nil {
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
	return fmt.Sprintf("certificates of agents that have expired or expire soon: %d (%s)", all, strings.Join(names, ", "))
}

// certificateEnds is about a certificate that was not renewed when it was due. Agents ask for another one after a third
// of its life.
func certificateEnds(k *known) *found {
	published := k.published()
	if k.one || published == nil || published.Certificate == nil {
		return nil
	}
	from, until := published.Certificate.NotBefore.Time, published.Certificate.NotAfter.Time
	due := until.Add(-until.Sub(from) / certificateShare)
	switch {
	case !until.After(from) || k.now.Before(due):
		return nil
	case !k.now.Before(until):
		return &found{situation: CertificateExpired, since: until, message: "the agent's certificate expired at " + until.UTC().Format(time.RFC3339)}
	}
	return &found{situation: CertificateExpiresSoon, since: due, message: "the agent's certificate expires at " + until.UTC().Format(time.RFC3339) + ", and no other one was issued"}
}
