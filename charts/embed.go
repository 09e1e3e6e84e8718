// Package charts holds the two Helm charts and, for the binaries, the CRDs in them.
package charts

import "embed"

// AgentCRDs are the CustomResourceDefinitions that the agent keeps in its runtime, one YAML file each, in
// skr-agent/crds.
//
//go:embed skr-agent/crds/*.yaml
var AgentCRDs embed.FS

// PublisherCRDs are the CustomResourceDefinitions of the control plane, one YAML file each, in
// kcp-publisher/files/crds.
//
//go:embed kcp-publisher/files/crds/*.yaml
var PublisherCRDs embed.FS

// PublisherRBAC is the publisher's RBAC of the chart, one YAML file for each part, in
// kcp-publisher/rbac.
//
//go:embed kcp-publisher/rbac/*.yaml
var PublisherRBAC embed.FS

// AgentRBAC is the agent's RBAC of the chart, one YAML file for each part, in skr-agent/rbac.
//
//go:embed skr-agent/rbac/*.yaml
var AgentRBAC embed.FS
