package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/bundle/strict"
	"github.com/kyma-pull/kyma-pull/internal/checks"
)

func (p *Prober) http(ctx context.Context, c fleet.HTTPCheck) (checks.Measurement, error) {
	target, err := url.Parse(serviceURL(c.Service) + cmp.Or(c.Path, "/"))
	if err != nil {
		return checks.Measurement{}, errors.New("http.path is not a URL path")
	}
	if ctx, err = p.withAddresses(ctx, c.Service); err != nil {
		return checks.Measurement{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return checks.Measurement{}, err
	}
	request.Header.Set("User-Agent", "kyma-pull-check")
	started := time.Now()
	response, err := p.client().Do(request)
	if err != nil {
		p.dropAddresses(c.Service)
		return checks.Measurement{}, err
	}
	defer response.Body.Close() //nolint:errcheck // the body is only read, so a failed Close loses nothing
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return checks.Measurement{}, fmt.Errorf("read the response: %w", err)
	}
	return p.checkResponse(ctx, c, response.StatusCode, body, time.Since(started))
}

func (p *Prober) checkResponse(
	ctx context.Context, c fleet.HTTPCheck, status int, body []byte, latency time.Duration,
) (checks.Measurement, error) {
	m := checks.Measurement{Verdict: checks.Success, Value: latency.Round(time.Millisecond).String()}
	failed := func(format string, args ...any) (checks.Measurement, error) {
		return checks.Measurement{Verdict: checks.Failure, Value: m.Value, Message: fmt.Sprintf(format, args...)}, nil
	}
	if want := int(cmp.Or(c.Status, http.StatusOK)); status != want {
		return failed("the status is %d, must be %d", status, want)
	}
	if most := c.MaxLatency.Duration; most > 0 && latency > most {
		return failed("the response took %s (maxLatency is %s)", m.Value, most)
	}
	if c.Expression == "" {
		return m, nil
	}
	if decodedBytes(body) > maxSmallBytes {
		release, err := p.options.Memory.acquire(ctx)
		if err != nil {
			return checks.Measurement{}, err
		}
		defer release()
	}
	var content any
	err := strict.CheckJSON(body, strict.MaxJSONDepth)
	if err == nil {
		err = utiljson.Unmarshal(body, &content)
	}
	if err != nil {
		return checks.Measurement{}, fmt.Errorf("the response is not JSON: %w", err)
	}
	is, err := p.evaluate(ctx, c.Expression, map[string]any{checks.VarBody: content, checks.VarObjects: []any{}})
	if err != nil {
		return checks.Measurement{}, err
	}
	if !is {
		return failed("the expression is false for the response")
	}
	return m, nil
}
