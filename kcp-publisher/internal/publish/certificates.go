package publish

import (
	"sync"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// certificates remembers which agents' certificates were checked by which keys: each look at a runtime asks for the one of its bundle, and a check
// costs a tenth of a promotion. It is safe for concurrent use.
type certificates struct {
	mu      sync.Mutex // guards checked
	checked map[string]checkedCertificate
}

// checkedCertificate is one that was good, as text, by the root of these keys.
type checkedCertificate struct {
	by   *Keys
	text string
	trust.Certificate
}

// check is Root.CheckCertificate for the root of the keys, but for the key that was certified.
func (c *certificates) check(keys *Keys, text, runtime string, now time.Time) (trust.Certificate, error) {
	c.mu.Lock()
	known, is := c.checked[runtime]
	c.mu.Unlock()
	if is && known.by == keys && known.text == text && known.Covers(now) {
		return known.Certificate, nil
	}
	fresh, err := keys.Root.CheckCertificate(text, runtime, now)
	if err != nil {
		return trust.Certificate{}, err
	}
	fresh.Key = nil
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.checked == nil {
		c.checked = map[string]checkedCertificate{}
	}
	c.checked[runtime] = checkedCertificate{keys, text, fresh}
	return fresh, nil
}

// release forgets a runtime that is gone.
func (c *certificates) release(runtime string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.checked, runtime)
}
