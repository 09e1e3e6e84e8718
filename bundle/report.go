package bundle

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Report is a runtime's report about itself, signed with the runtime's key.
type Report struct {
	Runtime string `json:"runtime"`
	// Fleet is the fleet name in the runtime's root of trust. It prevents another fleet's publisher from accepting the
	// report.
	Fleet string `json:"fleet,omitempty"`
	// Sequence increases with every report that a key signs; see NextReportSequence.
	Sequence int64 `json:"sequence"`
	// Time is the time when the agent wrote the report, according to the runtime's clock.
	Time time.Time `json:"time"`
	// AgentVersion is the version of the agent. KubernetesVersion is the version of the runtime's API server, such as
	// "v1.36.3".
	AgentVersion      string `json:"agentVersion"`
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// ClusterUID is the UID of the runtime's kube-system namespace.
	ClusterUID string `json:"clusterUID,omitempty"`
	// Recipient is the runtime's age recipient (public key). The control plane encrypts the runtime's Secrets for it.
	Recipient string `json:"recipient,omitempty"`
	// Observed is the accepted bundle that the report describes, or nil if the agent has not accepted a bundle yet.
	Observed *Observed `json:"observed,omitempty"`
	// Kyma is the Kyma in the runtime, or nil if it does not exist.
	Kyma *ReportedKyma `json:"kyma,omitempty"`
	// Modules lists the installed modules, sorted by name. It includes installed modules that the bundle does not
	// contain anymore, and modules in the bundle whose Manifest is missing.
	Modules []ReportedModule `json:"modules,omitempty"`
	// Refused lists the bundles that were refused since the last accepted one, newest last, at most MaxRefusedReported.
	Refused []RefusedBundle `json:"refused,omitempty"`
	// Enrollment asks the control plane to accept the agent's key. The agent includes it until the control plane has
	// confirmed the key.
	Enrollment *trust.Enrollment `json:"enrolment,omitempty"`
	// Certificate is the certificate that the control plane issued to the runtime's key, in PEM.
	Certificate string `json:"certificate,omitempty"`
	// CertificateRequest requests a certificate, in PEM (PKCS #10), or is empty.
	CertificateRequest string `json:"certificateRequest,omitempty"`
	// CheckRun is the result of the latest check run since the agent started, or nil.
	CheckRun *ReportedCheckRun `json:"checkRun,omitempty"`
	// Decided lists the modules that differ from the applied bundle because the runtime changed them itself, sorted by
	// name. A runtime with autonomy can add, change or remove modules without a new bundle.
	Decided []string `json:"decided,omitempty"`
	// AgentProblem is the reason why the configured agent image does not run, or empty.
	AgentProblem string `json:"agentProblem,omitempty"`
	// Trouble describes objects that the agent could not write in its runtime, or nil.
	Trouble *ReportedTrouble `json:"trouble,omitempty"`
	// Secrets is the outcome for the applied bundle's Secrets, or nil if the bundle has no Secrets.
	Secrets *ReportedSecrets `json:"secrets,omitempty"`
	// Watched lists the object changes that the agent observed for the Watchers in the applied bundle, sorted by
	// Watcher.
	Watched []ReportedWatch `json:"watched,omitempty"`
	// Takeover is the progress of the takeover from another product, or nil if the applied bundle has no takeover.
	Takeover *ReportedTakeover `json:"takeover,omitempty"`
	// Truncated lists the parts that the agent omitted because the report would have been too large, or nil if the
	// report is complete.
	Truncated *Truncated `json:"truncated,omitempty"`
	// Features lists the features that the agent supports, sorted. If it is nil, ComposeReport sets it to AllFeatures.
	Features []Feature `json:"features,omitempty"`
	// Owner is the Kyma that the runtime belongs to, or nil if the agent does not know its Kyma yet.
	Owner *trust.Kyma `json:"owner,omitempty"`
	// Instance is a random value that the agent chooses when it starts. Different values in one runtime's reports show
	// that two agents use the same key.
	Instance string `json:"instance,omitempty"`
	// Follows is the digest of the agent's previous report in the registry, or empty for the first report.
	Follows digest.Digest `json:"follows,omitempty"`
	// Confirmed is true once the agent has verified that no other agent uses its key. Until then, the publisher ignores
	// requests from the report.
	Confirmed bool `json:"confirmed,omitempty"`
	// Twin is the instance of another agent that uses the same key and replaced this agent's report.
	Twin string `json:"twin,omitempty"`
}

// Truncated lists the omitted parts of a report.
type Truncated struct {
	// Details is true if the report omits module details.
	Details bool `json:"details,omitempty"`
	// Messages is true if messages were shortened or omitted.
	Messages bool `json:"messages,omitempty"`
	Objects  bool `json:"objects,omitempty"`
	// Lists is true if the report omits entries from Watched or Decided.
	Lists bool `json:"lists,omitempty"`
	// Modules is the number of omitted installed modules.
	Modules int `json:"modules,omitempty"`
	// Requested is the number of modules in the runtime's Kyma spec that the report omits.
	Requested int `json:"asked,omitempty"`
}

// HasApplied reports whether the runtime has applied the bundle with this digest, according to the report.
func (r Report) HasApplied(bundle digest.Digest) bool {
	return bundle != "" && r.Observed != nil && r.Observed.Digest == bundle
}

// OmitsModules reports whether the report omits installed modules.
func (r Report) OmitsModules() bool { return r.Truncated != nil && r.Truncated.Modules > 0 }

// OmitsRequest reports whether the report omits the modules that the runtime's Kyma requests.
func (r Report) OmitsRequest() bool { return r.Truncated != nil && r.Truncated.Requested > 0 }

// MaxRefusedReported limits the refused bundles in a report.
const MaxRefusedReported = 8

// Observed identifies the bundle that a report describes.
type Observed struct {
	Epoch    int64         `json:"epoch"`
	Sequence int64         `json:"sequence"`
	Digest   digest.Digest `json:"digest"`
	// Expired is true if the bundle has expired. An expired bundle stays in effect until the agent accepts a newer one.
	Expired bool `json:"expired,omitempty"`
}

// ReportedKyma is the Kyma in the runtime.
type ReportedKyma struct {
	Spec       v1beta2.KymaSpec `json:"spec"`
	Generation int64            `json:"generation"`
	Deleting   bool             `json:"deleting,omitempty"`
	State      v1beta2.State    `json:"state,omitempty"`
}

// ReportedModule is an installed module.
type ReportedModule struct {
	Name    string `json:"name"`
	Channel string `json:"channel,omitempty"`
	// Version is the last applied version. Wanted is the version in the module's Manifest, or in the bundle if the
	// Manifest is missing. Wanted is empty if both versions are equal.
	Version string        `json:"version,omitempty"`
	Wanted  string        `json:"wanted,omitempty"`
	State   v1beta2.State `json:"state"`
	// Reason explains the state or a waiting upgrade: one of reason.Modules, or empty.
	Reason reason.Reason `json:"reason,omitempty"`
	// Message explains the reason, in at most MaxMessageBytes.
	Message string `json:"message,omitempty"`
	// Maintenance is true if a module upgrade waits for a maintenance window.
	Maintenance bool `json:"maintenance,omitempty"`
	// Manifest and Resource identify the Manifest object and the module's default CR.
	Manifest *v1beta2.TrackingObject `json:"manifest,omitempty"`
	Resource *v1beta2.TrackingObject `json:"resource,omitempty"`
	// Checks are the results for the checks in the module's Manifest, sorted by name.
	Checks []ReportedCheck `json:"checks,omitempty"`
	// Details are the details that the operator requested, or nil.
	Details *ModuleDetails `json:"details,omitempty"`
}

// ReportedCheck is the result of a module's check. Passes, Failures and Unknowns count the measurements.
type ReportedCheck struct {
	v1beta2.CheckOutcome
	Passes   int32 `json:"passes,omitempty"`
	Failures int32 `json:"failures,omitempty"`
	Unknowns int32 `json:"unknowns,omitempty"`
}

// HasProblem reports whether the check is Inconclusive and had a failed or unknown measurement.
func (c ReportedCheck) HasProblem() bool {
	return c.Result == v1beta2.CheckInconclusive && (c.Failures > 0 || c.Unknowns > 0)
}

// WithoutValues reduces the check to its name and result. If the check has a problem, Unknowns is 1. Agents send a
// report early, and publishers evaluate it, only for changes to these fields.
func (c ReportedCheck) WithoutValues() ReportedCheck {
	lasting := ReportedCheck{CheckOutcome: v1beta2.CheckOutcome{Name: c.Name, Result: c.Result}}
	if c.HasProblem() {
		lasting.Unknowns = 1
	}
	return lasting
}

// ReportedTrouble describes objects that an agent could not write.
type ReportedTrouble struct {
	// Reason is the reason for the condition Synced on the Kyma.
	Reason string `json:"reason"`
	// Message lists the objects and the cause, in at most MaxMessageBytes.
	Message string `json:"message"`
	// Catalog is true if the agent could not write a ModuleTemplate or ModuleReleaseMeta.
	Catalog bool `json:"catalog,omitempty"`
}

// ReportedSecrets is the result of applying a runtime's Secrets.
type ReportedSecrets struct {
	// Revision identifies the Secrets that the agent applied. It equals Sealed.Revision in the applied bundle.
	Revision string `json:"revision"`
	// Reason is the reason why Secrets differ from the bundle: one of reason.Secrets, or empty.
	Reason reason.Reason `json:"reason,omitempty"`
	// Trouble lists the Secrets that differ from the bundle, with the cause, in at most MaxMessageBytes. It is empty if
	// all Secrets match.
	Trouble string `json:"trouble,omitempty"`
}

// RefusedBundle is a bundle that the runtime refused.
type RefusedBundle struct {
	Digest digest.Digest  `json:"digest,omitempty"`
	Reason refusal.Reason `json:"reason"`
	Detail string         `json:"detail"`
	Time   time.Time      `json:"time"`
}

func (r Report) content() digest.Digest {
	r = r.WithoutDetails() // details change often and do not affect the publisher's decisions
	r.Time, r.Sequence, r.Follows = time.Time{}, 0, ""
	r.Modules = slices.Clone(r.Modules)
	for i := range r.Modules {
		checks := slices.Clone(r.Modules[i].Checks)
		for n, c := range checks {
			checks[n] = c.WithoutValues()
		}
		r.Modules[i].Checks = checks
	}
	text, err := json.Marshal(r)
	if err != nil {
		return "" // cannot happen: the report was decoded from JSON
	}
	return digest.FromBytes(text)
}

// WithoutDetails returns the report without module details and check run results.
func (r Report) WithoutDetails() Report {
	r.CheckRun = nil
	if !slices.ContainsFunc(r.Modules, func(m ReportedModule) bool { return m.Details != nil }) {
		return r
	}
	r.Modules = slices.Clone(r.Modules)
	for i := range r.Modules {
		r.Modules[i].Details = nil
	}
	return r
}

// ReportedCheckRun is the result of a CheckRun.
type ReportedCheckRun struct {
	ID     string `json:"id"`
	Module string `json:"module"`
	// Version is the installed version of the module, or empty if the module is not installed.
	Version string `json:"version,omitempty"`
	// Measured is the time when the last check ended.
	Measured time.Time `json:"measured"`
	// Problem is the reason why no check ran, or empty if the checks ran.
	Problem string `json:"problem,omitempty"`
	// Checks are the results, sorted by name. The agent runs each check only once.
	Checks []ReportedCheck `json:"checks,omitempty"`
}
