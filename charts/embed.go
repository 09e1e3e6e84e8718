// Package charts contains the two Helm charts, and embeds their CRDs and RBAC for the programs.
package charts

import "embed"

// AgentCRDs contains the CRDs that the agent installs and restores in its runtime, one YAML file for each CRD.
//
//go:embed skr-agent/crds/*.yaml
var AgentCRDs embed.FS

// PublisherCRDs contains the CRDs of the control plane, one YAML file for each CRD.
//
//go:embed kcp-publisher/files/crds/*.yaml
var PublisherCRDs embed.FS

// PublisherRBAC contains the publisher's roles and bindings, one YAML file for each feature.
//
//go:embed kcp-publisher/rbac/*.yaml
var PublisherRBAC embed.FS

// AgentRBAC contains the agent's roles and bindings, one YAML file for each feature.
//
//go:embed skr-agent/rbac/*.yaml
var AgentRBAC embed.FS

// Permissions contains the roles, bindings and admission policies of both charts.
//
//go:embed kcp-publisher/rbac/*.yaml kcp-publisher/policy/*.yaml skr-agent/rbac/*.yaml skr-agent/policy/*.yaml
var Permissions embed.FS
