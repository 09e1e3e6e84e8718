package publish

import (
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// certificateCache caches the agent's last valid certificate and the keys with which it was verified.
type certificateCache struct {
	keys          *Keys
	text, runtime string
	trust.Certificate
}

// check verifies a certificate like Root.CheckCertificate, or returns the cached result.
func (c *certificateCache) check(keys *Keys, text, runtime string, now time.Time) (trust.Certificate, error) {
	if c.keys == keys && c.text == text && c.runtime == runtime && c.Covers(now) {
		return c.Certificate, nil
	}
	fresh, err := keys.Root.CheckCertificate(text, runtime, now)
	if err != nil {
		return trust.Certificate{}, err
	}
	fresh.Key = nil
	*c = certificateCache{keys, text, runtime, fresh}
	return fresh, nil
}
