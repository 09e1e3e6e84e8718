package publish

import (
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// checkedCertificate caches the agent's last valid certificate with the keys that verified it.
type checkedCertificate struct {
	by            *Keys
	text, runtime string
	trust.Certificate
}

// check returns the result of Root.CheckCertificate, from the cache if possible.
func (c *checkedCertificate) check(keys *Keys, text, runtime string, now time.Time) (trust.Certificate, error) {
	if c.by == keys && c.text == text && c.runtime == runtime && c.Covers(now) {
		return c.Certificate, nil
	}
	fresh, err := keys.Root.CheckCertificate(text, runtime, now)
	if err != nil {
		return trust.Certificate{}, err
	}
	fresh.Key = nil
	*c = checkedCertificate{keys, text, runtime, fresh}
	return fresh, nil
}
