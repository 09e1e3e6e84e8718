package v1beta2

// Reasons in the ConfigMap kyma-pull-git, which contains the status of the Git source, and of the Events on it.
const (
	// ReasonCommitApplied: the control plane has all objects of the commit.
	ReasonCommitApplied = "CommitApplied"
	// ReasonFetchFailed: the repository did not respond, or the branch or tag was not found. Nothing changed.
	ReasonFetchFailed = "FetchFailed"
	// ReasonAuthenticationFailed: the repository did not accept the credentials. Nothing changed.
	ReasonAuthenticationFailed = "AuthenticationFailed"
	// ReasonHostKeyRefused: known_hosts does not contain the key of the SSH server. Nothing changed.
	ReasonHostKeyRefused = "HostKeyRefused"
	// ReasonCommitRefused: the commit cannot be applied. Nothing changed. The message names the file and line.
	ReasonCommitRefused = "CommitRefused"
	// ReasonPruneNotAllowed: the commit requires permission to delete the objects that it omits. Nothing changed.
	ReasonPruneNotAllowed = "PruneNotAllowed"
	// ReasonCommitApplyFailed: the API server could not be read, or refused a part of the commit that it had accepted
	// in a dry run. Nothing is published until a commit is applied completely.
	ReasonCommitApplyFailed = "CommitApplyFailed"
	// ReasonCommitOverwritten: the commit was applied, but another client immediately changes its objects again. It is
	// published anyway if only Kymas differ, or if the commit was applied completely before.
	ReasonCommitOverwritten = "CommitOverwritten"
)
