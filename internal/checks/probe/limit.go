package probe

import (
	"fmt"
	"net/http"

	"github.com/kyma-pull/kyma-pull/internal/bounded"
)

// limited limits the size of response bodies.
func limited(next http.RoundTripper, maxBytes int64) http.RoundTripper {
	return bounded.Transport{
		Next: next, MaxBytes: maxBytes, TooLarge: fmt.Errorf("the response has more than %d bytes", maxBytes),
	}
}
