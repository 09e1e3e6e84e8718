package publish

import (
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// checkedCertificate is the agent's certificate that was last found valid, and the keys that it was checked with. Each
// pass needs the certificate of the last bundle, and a check costs a tenth of a promotion.
type checkedCertificate struct {
	by            *Keys
	text, runtime string
	trust.Certificate
}

// check is Root.CheckCertificate with the root of the keys. It does not return the certified key.
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
