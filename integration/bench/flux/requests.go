package main

import (
	"context"
	"errors"
	"fmt"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// requests counts an API server's completed requests.
type requests struct {
	// All excludes watches and the requests from kwok, which replaces the Deployment controller. Writes counts requests
	// that change objects. DryRuns counts dry runs.
	All, Writes, DryRuns float64
}

func (r requests) since(before requests) requests {
	return requests{r.All - before.All, r.Writes - before.Writes, r.DryRuns - before.DryRuns}
}

func (r requests) plus(more requests) requests {
	return requests{r.All + more.All, r.Writes + more.Writes, r.DryRuns + more.DryRuns}
}

// changes returns the counts for n writes, so that a caller can subtract the benchmark's own writes.
func changes(n int) requests { return requests{All: float64(n), Writes: float64(n)} }

// requestsOf returns the request counts from the API server's metric apiserver_request_total.
func requestsOf(ctx context.Context, config *rest.Config) (requests, error) {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return requests{}, err
	}
	body, err := clients.RESTClient().Get().AbsPath("/metrics").Stream(ctx)
	if err != nil {
		return requests{}, fmt.Errorf("read the API server's metrics: %w", err)
	}
	defer body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(body)
	if err != nil {
		return requests{}, fmt.Errorf("read the API server's metrics: %w", err)
	}
	family := families["apiserver_request_total"]
	if family == nil {
		return requests{}, errors.New("the API server's metrics have no apiserver_request_total")
	}
	return count(family), nil
}

func count(family *dto.MetricFamily) requests {
	var sum requests
	for _, m := range family.GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		if labels["resource"] == "deployments" && labels["subresource"] == "status" || labels["resource"] == "" ||
			labels["verb"] == "WATCH" {
			continue // skip kwok, watches, and requests outside the API, such as /metrics
		}
		n := m.GetCounter().GetValue()
		sum.All += n
		switch labels["verb"] {
		case "POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION":
			if labels["dry_run"] != "" {
				sum.DryRuns += n
			} else {
				sum.Writes += n
			}
		}
	}
	return sum
}
