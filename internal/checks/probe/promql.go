package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	promapi "github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/internal/checks"
)

func (p *Prober) promQL(ctx context.Context, c fleet.PromQLCheck, before string) (checks.Measurement, error) {
	value, err := p.query(ctx, c)
	if err != nil {
		return checks.Measurement{}, err
	}
	return checks.CompareNumber(c, value, before), nil
}

// query sends a PromQL query to the check's Service and returns the number in the response.
func (p *Prober) query(ctx context.Context, c fleet.PromQLCheck) (float64, error) {
	ctx, err := p.withAddresses(ctx, c.Service)
	if err != nil {
		return 0, err
	}
	server, err := promapi.NewClient(promapi.Config{
		Address: serviceURL(c.Service) + strings.TrimSuffix(c.Path, "/"), Client: p.client(),
	})
	if err != nil {
		return 0, err
	}
	result, warnings, _, err := promv1.NewAPI(server).Query(ctx, c.Query, time.Now())
	if err != nil {
		var answer *promv1.Error
		if !errors.As(err, &answer) {
			p.dropAddresses(c.Service)
		}
		return 0, fmt.Errorf("query: %w", err)
	}
	if err := warningError(warnings); err != nil {
		return 0, err
	}
	return onlyNumber(result)
}

// warningError returns an error for a response with warnings. Prometheus and Thanos return a warning if the query
// continued after an error, for example if a store did not respond. The value may then be based on only a part of the
// data. Prometheus before version 3 also returns info annotations as warnings. warningError ignores them, because they
// are only hints about the query.
func warningError(warnings promv1.Warnings) error {
	warnings = slices.DeleteFunc(warnings, func(w string) bool { return strings.HasPrefix(w, "PromQL info: ") })
	switch len(warnings) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("the query returned a warning: %s", warnings[0])
	}
	return fmt.Errorf("the query returned %d warnings, the first is: %s", len(warnings), warnings[0])
}

func onlyNumber(result model.Value) (float64, error) {
	switch found := result.(type) {
	case *model.Scalar:
		return float64(found.Value), nil
	case model.Vector:
		switch {
		case len(found) == 0:
			return 0, errors.New("the query returned no data")
		case len(found) > 1:
			return 0, fmt.Errorf("the query returned %d series, must return one", len(found))
		case found[0].Histogram != nil:
			return 0, errors.New("the query returned a histogram, must return a number")
		}
		return float64(found[0].Value), nil
	}
	return 0, errors.New("the query must return a scalar or a vector")
}
