package v1beta2

// Reasons in the ConfigMap kyma-pull-git, which says how following a Git repository goes, and of the Events on it.
const (
	// ReasonCommitApplied says that the control plane has what the commit has.
	ReasonCommitApplied = "CommitApplied"
	// ReasonFetchFailed says that the repository did not answer, or has no such branch or tag. Nothing changed.
	ReasonFetchFailed = "FetchFailed"
	// ReasonAuthenticationFailed says that the repository does not accept the credentials. Nothing changed.
	ReasonAuthenticationFailed = "AuthenticationFailed"
	// ReasonHostKeyRefused says that known_hosts does not have the key of the SSH server. Nothing changed.
	ReasonHostKeyRefused = "HostKeyRefused"
	// ReasonCommitRefused says that the commit cannot be applied. Nothing changed. The message names file and line.
	ReasonCommitRefused = "CommitRefused"
	// ReasonPruneNotAllowed says that the commit waits for the permission to delete what it leaves out. Nothing changed.
	ReasonPruneNotAllowed = "PruneNotAllowed"
	// ReasonRewindNotAllowed: the commit does not descend from the one that was applied before. Nothing of it is applied.
	ReasonRewindNotAllowed = "RewindNotAllowed"
	// ReasonCommitApplyFailed says that the API server could not be read, or refused a part of the commit after it had
	// accepted all of it in a dry run. Until a commit is applied as a whole, nothing is published.
	ReasonCommitApplyFailed = "CommitApplyFailed"
	// ReasonCommitOverwritten says that the commit was applied, and that somebody else changes its objects again at once.
	// It is published all the same if only Kymas differ, or if the commit was applied as a whole before.
	ReasonCommitOverwritten = "CommitOverwritten"
)
