module github.com/kyma-pull/kyma-pull/hack/promtool

go 1.26.7

// Built with the tag remove_all_sd: without it promtool links the service discovery of every cloud, of which one module cannot be had.
require github.com/prometheus/prometheus v0.316.0
