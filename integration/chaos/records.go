package chaos

import (
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// Push is a bundle that the registry accepted for a runtime.
type Push struct {
	Runtime  string
	Digest   string
	Epoch    int64
	Sequence int64
	// Versions contains the modules in the bundle with their versions. Removals lists the modules that the bundle
	// removes.
	Versions map[string]string
	Removals []string
	// Mandatory contains the mandatory modules. The control plane does not show their states.
	Mandatory map[string]bool
	// Rollback contains the rollbacks that the bundle allows. Runtimes refuse other downgrades.
	Rollback []bundle.Rollback
	Deleting bool
	// Generation is the generation of the runtime's Kyma that the bundle is based on, or 0.
	Generation int64
	// Downtime contains the modules whose version requires downtime. Closed is true if the bundle has a maintenance
	// schedule without windows.
	Downtime map[string]bool
	Closed   bool
	// Issued is the time when the publisher decided to publish the bundle, or 0 if this time is unknown. A slow
	// registry can accept the bundle much later.
	Issued time.Duration
	// Key is the thumbprint of the agent key in the bundle, or empty. An agent with a different key refuses the bundle.
	Key string
	// NextCA is the registry CA that the bundle announces, or empty.
	NextCA string
	// Ahead is true if the bundle's sequence is in the future, because a publisher's clock was ahead.
	Ahead bool
	// Refused is the reason why runtimes must refuse the bundle, or nil if a publisher key in the root of trust signed
	// it.
	Refused error
}

// Reported is a runtime's report that the registry accepted.
type Reported struct {
	Runtime  string
	Sequence int64
	// Instance identifies the process of the agent. Confirmed is true if the agent knows that no other agent has its
	// key.
	Instance  string
	Confirmed bool
	// Epoch and Observed identify the reported bundle. They are 0 if the report contains no bundle.
	Epoch, Observed int64
	// Answered contains the version of each module that has a result in the report.
	Answered map[string]string
	// Waiting contains the modules whose newest version waits for a maintenance window.
	Waiting map[string]bool
	// States maps each module to its state. Ready maps each module in state Ready to its version.
	States, Ready map[string]string
	// Digest is the digest of the reported bundle, or empty.
	Digest string
	// Generation is the generation of the runtime's Kyma. Requests are the modules that the Kyma requests, or nil if
	// the report does not contain them.
	Generation int64
	Requests   []string
	// Ahead is true if the runtime's clock is so far ahead that the control plane refuses the report.
	Ahead bool
}

// Record contains the fields of a Kyma's status that the checker compares over time.
type Record struct {
	Runtime, UID        string
	Epoch               int64
	Published, Observed int64
	// Key verifies the runtime's reports. Report is the sequence of the newest recorded report that was signed with
	// Key.
	Key    string
	Report int64
	// ObservedEpoch and ObservedDigest belong to the observed bundle. The digest is empty if it is unknown.
	ObservedEpoch  int64
	ObservedDigest string
	// State is the state of the Kyma. Ready lists the modules in state Ready.
	State string
	Ready []string
	// Requests are the recorded modules of the runtime's own Kyma, or nil if none are recorded.
	Requests []string
	// Quarantined is true if the publisher has detected two agents with the runtime's key.
	Quarantined bool
}

// ObservedRollout is the observed state of a rollout.
type ObservedRollout struct {
	Rollout, From, To, State string
	// Updated is the number of runtimes that are ready with the version.
	Updated int
	// Mistyped is true if the first wave selects no runtime because of a typo.
	Mistyped bool
	// Granted lists the runtimes that the rollout can still update in this state.
	Granted []string
}

// assignedVersion is a version change of the module with rollouts, in a runtime's bundle. The checker needs a later
// observation of the rollouts to decide whether the change was allowed.
type assignedVersion struct {
	at                time.Duration
	runtime, from, to string
	sequence          int64
}

// observations contains the observations and announced changes of one runtime.
type observations struct {
	asked, unasked map[string]time.Duration // time of the last request to add or to remove each module
	wants          map[string]bool
	pushed         *Push
	signed         map[string]map[string]bool // versions by module in signed bundles for this runtime
	removed        map[string]Push            // newest signed bundle that removes each module
	open           string                     // new version of the staged module without a reported result
	openSince      int64                      // sequence of the first bundle with this version
	lastReport     Reported
	reportedAt     time.Duration   // time of lastReport
	announced      map[string]Push // first bundle that announced each registry CA
	record         Record
	present        map[string]string
	deleted        map[string]time.Duration // times when users deleted objects
	requests       map[int64][]string       // modules that each generation of the runtime's Kyma requests
	reports        map[int64]Reported       // all reports, by sequence
	formerKeys     map[string]bool          // earlier keys in the status
	replacedKeys   map[string]bool          // earlier keys in bundles
	closedSince    int64                    // sequence of the first bundle that closed the maintenance window, or 0
	wasClosed      bool                     // the window was closed in the previous observation
	cloned         bool                     // two agents have the runtime's key
	rekeyed        bool                     // an operator replaces the key of a cloned runtime
	separated      time.Duration            // time since which only one agent has the key again, or 0
	// quarantinedSince is the time when the status first reported two agents, or 0.
	quarantinedSince time.Duration
	instances        map[string]Reported // newest report from each agent that uses a cloned runtime's key
	// originalAt is the time of the original's last report. mayFollowCopy is true if the original has been silent for
	// so long that the control plane is allowed to follow the copy.
	originalAt    time.Duration
	mayFollowCopy bool
	install       installation
	hasRun        map[string]bool // versions of the staged module that the runtime reported as Ready
	// followsSince is the time of the first report with a bundle. editedAt is the last time when a user edited an
	// object of a module.
	followsSince, editedAt time.Duration
	// suspendedAt is the time when an operator suspended the runtime, or 0. revoked contains the times when operators
	// revoked keys of the runtime.
	suspendedAt time.Duration
	revoked     map[string]time.Duration
	// keyDeletedAt is the last time when the key of the runtime was deleted, or 0.
	keyDeletedAt time.Duration
}

// isBefore reports whether p is older than the bundle with this epoch and sequence.
func (p Push) isBefore(epoch, sequence int64) bool {
	return p.Epoch < epoch || p.Epoch == epoch && p.Sequence < sequence
}

// followTime is how long a runtime can still install the versions of an older bundle after it has reported a newer one.
const followTime = 10 * time.Second

// installation contains the bundles that a runtime can install, and the history of its modules.
type installation struct {
	bundles []Push // all signed bundles, in the order in which the registry accepted them
	// followed contains the bundles that the runtime reported within the last followTime. floor is the bundle in the
	// newest report before that time. The runtime can install only the versions in floor and in newer bundles.
	followed  []followedBundle
	floor     followedBundle
	changedAt map[string]time.Duration // time when each module's version last changed
	claims    map[string]claim         // versions that a report lists as Ready and that were not observed yet
}

// followedBundle identifies the bundle in a report.
type followedBundle struct {
	at              time.Duration
	epoch, sequence int64
}

// claim is a version that a report lists as Ready. The field bundle is the bundle in the report.
type claim struct {
	bundle  followedBundle
	report  int64
	version string
}

func newInstallation() installation {
	return installation{changedAt: map[string]time.Duration{}, claims: map[string]claim{}}
}

// note stores the bundle and the ready versions of a report.
func (i *installation) note(at time.Duration, r Reported) {
	followed := followedBundle{at, r.Epoch, r.Observed}
	i.followed = append(i.followed, followed)
	for module, version := range r.Ready {
		if i.claims[module].version != version {
			i.claims[module] = claim{followed, r.Sequence, version}
		}
	}
}

// advance moves the floor to the bundle of the newest report that is older than followTime.
func (i *installation) advance(at time.Duration) {
	for len(i.followed) > 0 && i.followed[0].at+followTime <= at {
		i.floor, i.followed = i.followed[0], i.followed[1:]
	}
}

// offers reports whether the floor or a newer bundle contains this version of a module. An empty version matches every
// version.
func (i *installation) offers(module, version string) bool {
	return slices.ContainsFunc(i.bundles, func(p Push) bool {
		offered, has := p.Versions[module]
		return has && (version == "" || version == offered) && !p.isBefore(i.floor.epoch, i.floor.sequence)
	})
}

// isReplaced reports whether a newer bundle replaces or removes a version that a report lists as Ready.
func (i *installation) isReplaced(module string, claimed claim) bool {
	return slices.ContainsFunc(i.bundles, func(p Push) bool {
		isNewer := !p.isBefore(claimed.bundle.epoch, claimed.bundle.sequence+1)
		return isNewer && (p.Deleting || slices.Contains(p.Removals, module) || p.Versions[module] != claimed.version)
	})
}

// hasBundle reports whether a bundle with this epoch, sequence and digest was pushed.
func (i *installation) hasBundle(epoch, sequence int64, digest string) bool {
	return slices.ContainsFunc(i.bundles, func(p Push) bool {
		return p.Epoch == epoch && p.Sequence == sequence && p.Digest == digest
	})
}
