package v1beta2

// Reasons in the ConfigMap kyma-pull-git, which contains the Git source's status, and in Events on it.
const (
	// ReasonCommitApplied means that the control plane has all objects from the commit.
	ReasonCommitApplied = "CommitApplied"
	// ReasonFetchFailed means that the repository did not respond, or the branch or tag was not found. The publisher
	// made no changes.
	ReasonFetchFailed = "FetchFailed"
	// ReasonAuthenticationFailed means that the repository did not accept the credentials. The publisher made no
	// changes.
	ReasonAuthenticationFailed = "AuthenticationFailed"
	// ReasonHostKeyRefused means that known_hosts does not contain the SSH server's key. The publisher made no changes.
	ReasonHostKeyRefused = "HostKeyRefused"
	// ReasonCommitRefused means that the commit cannot be applied. The publisher made no changes. The message contains
	// the file and line.
	ReasonCommitRefused = "CommitRefused"
	// ReasonPruneNotAllowed means that the commit requires permission to delete the objects that it omits. The
	// publisher made no changes.
	ReasonPruneNotAllowed = "PruneNotAllowed"
	// ReasonRewindNotAllowed means that the commit does not descend from the previously applied commit. The publisher
	// made no changes.
	ReasonRewindNotAllowed = "RewindNotAllowed"
	// ReasonCommitApplyFailed means that the API server did not respond, or refused an object that it had accepted in a
	// dry run. The publisher does not publish bundles until a commit is applied completely.
	ReasonCommitApplyFailed = "CommitApplyFailed"
	// ReasonCommitOverwritten means that the commit was applied, but another client immediately changed objects from
	// the commit again. The publisher publishes the commit anyway if only Kymas differ, or if the commit was applied
	// completely before.
	ReasonCommitOverwritten = "CommitOverwritten"
)
