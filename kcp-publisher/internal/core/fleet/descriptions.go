package fleet

// Descriptions returns the descriptions of all situations. If several situations apply to a runtime, the first one in
// this order is the cause of its health.
func Descriptions() []Description { return append([]Description(nil), descriptions...) }

// logAdvice is the advice for a module that fails or takes too long.
const logAdvice = "kcp-publisher logs RUNTIME -n NAMESPACE --location REGISTRY/PATH"

var descriptions = []Description{
	{Suspension, Suspended,
		"the Kyma has the label operator.kyma-project.io/skip-reconciliation: publishing is suspended, and the Kyma's " +
			"status is not updated",
		"resume it: kcp-publisher resume kyma/KYMA -n NAMESPACE"},
	{NotLookedAt, NeverReported, "no publisher has reconciled the Kyma yet",
		"check that the publisher is running and has the lease: kubectl get pods,lease -n NAMESPACE; with " +
			"--watch-label-selector or shards, check that one of them selects the Kyma"},
	{DuplicateRuntimeID, Failing, "two Kymas name the same runtime, and this Kyma does not own it",
		"change or remove the label kyma-project.io/runtime-id: kubectl label kyma KYMA -n NAMESPACE --overwrite " +
			"kyma-project.io/runtime-id=OTHER-ID"},
	{
		RuntimeUnassigned,
		Failing,
		"several Kymas have the same runtime ID, or the runtime enrolled with another Kyma, and no operator has " +
			"assigned the runtime to this Kyma",
		"assign it: `kcp-publisher move RUNTIME --to KYMA -n NAMESPACE`, or enroll it: `kcp-publisher enroll " +
			"RUNTIME --replace --kyma NAMESPACE/KYMA --location REGISTRY/PATH`",
	},
	{
		RuntimeHandedOver,
		Failing,
		"an operator released the runtime, or assigned it to another Kyma: no more bundles are published for this Kyma",
		"delete this Kyma: nothing is removed from the runtime; or assign the runtime to this Kyma again: `kcp-publisher " +
			"enroll RUNTIME --replace --kyma NAMESPACE/KYMA --location REGISTRY/PATH`",
	},
	{
		CloneDetected,
		Failing,
		"two agents report with the runtime's key, so nothing is published to either agent: the cluster was cloned, " +
			"or restored while the original cluster still runs",
		"stop the copied cluster; then replace the agent's key in the original cluster: delete Secret " +
			"kyma-system/skr-agent-key and apply the output of `kcp-publisher enroll RUNTIME --kyma " +
			"NAMESPACE/KYMA --location REGISTRY/PATH`",
	},
	{RuntimeIDInvalid, Failing, "the runtime ID of the Kyma is invalid",
		"correct the label: kubectl label kyma KYMA -n NAMESPACE --overwrite kyma-project.io/runtime-id=OTHER-ID"},
	{RuntimeIDChanged, Failing, "the runtime ID label of the Kyma was changed",
		"restore the label kyma-project.io/runtime-id, or delete the Kyma and create one for the other runtime"},
	{RootExpired, Failing, "the root of trust has expired: agents accept no bundles, so none are published",
		"renew it: kcp-publisher keys rotate"},
	{
		KeysNotAccepted,
		Failing,
		"the root of trust does not list the publisher's keys, or agents follow a newer root than the publisher has",
		"compare: kcp-publisher keys show; then give the publisher the key folder with the latest root of trust",
	},
	{PinsInvalid, Failing, "the annotation kyma-pull.dev/pinned-versions of the Kyma is invalid",
		"correct it: kubectl edit kyma KYMA -n NAMESPACE"},
	{AnnotationInvalid, Failing, "an annotation of the Kyma is invalid",
		"correct it: kubectl edit kyma KYMA -n NAMESPACE"},
	{RegistryNotAnswering, Failing, "the registry responds for other runtimes but not for this one",
		"see the publisher's log; check its permissions: kcp-publisher check -n NAMESPACE --location " +
			"REGISTRY/PATH --registry-config FILE --registry-write"},
	{PublishFailed, Failing, "no newer bundle could be built or pushed",
		"follow the message; the publisher retries by itself"},
	{
		SecretMissing,
		Failing,
		"the image pull Secret for all runtimes is missing in the control plane or has the wrong type",
		"create it, or run the publisher without --image-pull-secret",
	},
	{SecretsNotSealed, Failing, "Secrets for the runtime could not be encrypted: the runtime keeps its current Secrets",
		"correct the Secret that the message names, or upgrade the agent"},

	{ModuleUnknown, Failing,
		"the catalog does not have the requested module: its name is mistyped, or it was never added",
		"correct the name in the Kyma, or add a ModuleReleaseMeta; list the available ones: kubectl get " +
			"modulereleasemetas -n NAMESPACE"},
	{ChannelMissing, Failing, "the module has no version in the requested channel",
		"request another channel, or add a version for this channel: kubectl edit modulereleasemeta MODULE -n NAMESPACE"},
	{PinUnavailable, Failing, "the Kyma pins the module to a version that is not available",
		"pin another version in the annotation kyma-pull.dev/pinned-versions, or remove the pin: kubectl edit kyma " +
			"KYMA -n NAMESPACE"},
	{TemplateMissing, Failing, "a channel names a version without a ModuleTemplate",
		"add the ModuleTemplate that the message names, or restore the channel: kubectl edit modulereleasemeta " +
			"MODULE -n NAMESPACE"},
	{TemplateDoubled, Failing, "two ModuleTemplates exist for one version of the module",
		"remove one of the two that the message names"},
	{CatalogInvalid, Failing, "a ModuleTemplate or ModuleReleaseMeta of the module has an invalid value",
		"correct the object that the message names: kubectl get moduletemplates,modulereleasemetas -n NAMESPACE"},
	{
		ModuleNotOffered,
		Failing,
		"the module is not available for this runtime: beta, internal, restricted, mandatory, or for the control " +
			"plane only",
		"remove it from the Kyma, or set the label that the message names: kubectl label kyma KYMA -n NAMESPACE " +
			"LABEL=true",
	},
	{ComponentNotFound, Failing, "no component repository has the version",
		"transfer the component, or add its repository to the publisher: --components"},
	{ComponentUnsigned, Failing, "the signature policy does not accept the component",
		"see why: kcp-publisher component verify NAME:VERSION --components REGISTRY/PATH --signature-policy FILE; " +
			"then sign it, or correct the policy"},
	{ComponentBroken, Failing, "the component or its content is invalid",
		"inspect it: kcp-publisher component show NAME:VERSION --components REGISTRY/PATH; then release a new version"},
	{OlderVersionAsked, Failing,
		"the requested version is older than the installed one, and no rollout rolls the module back: the runtime keeps " +
			"the newer one",
		"promote a newer version, or roll back with its rollout: kcp-publisher rollout list -n NAMESPACE"},
	{ValueUndefined, Failing, "a module uses a value that the runtime does not have; the module is not changed",
		"set the value that the message names: kubectl annotate kyma KYMA -n NAMESPACE kyma-pull.dev/values='{\"NAME\": " +
			"\"VALUE\"}', or set the label that the message names"},
	{ValueInvalid, Failing,
		"a module uses a value as an integer or boolean, but the runtime's value is not one; the module is not changed",
		"correct the value that the message names: kubectl annotate --overwrite kyma KYMA -n NAMESPACE " +
			"kyma-pull.dev/values='{\"NAME\": \"VALUE\"}' with all values, or correct the label that the message names"},
	{ModuleNotInherited, Failing, "a module installed by lifecycle-manager cannot be taken over at its current version",
		"keep that version in the catalog until the module is taken over: kcp-publisher takeover plan KYMA -n " +
			"NAMESPACE"},
	{
		RemovalHeld,
		Failing,
		"the removal of modules from the runtime waits for an operator's approval",
		"list the modules: kcp-publisher removals -n NAMESPACE; then undo the change, or approve the removal: " +
			"kcp-publisher removals approve ID -n NAMESPACE",
	},

	{ModuleUnresolved, Failing, "the module cannot be resolved for another reason",
		"follow the message"},

	{RegistryTampered, Failing,
		"the registry contained a bundle other than the published one: an older bundle, or one from an unknown " +
			"signer or another publisher",
		"find the other writer in the registry's access log; check that only one publisher serves the runtime"},
	{KeyRevoked, Failing, "the agent signs with a revoked key, so its reports are refused",
		"delete the agent's key in the runtime and enroll it again: kcp-publisher enroll RUNTIME --kyma " +
			"NAMESPACE/KYMA --location REGISTRY/PATH"},
	{EnrollmentRefused, Failing,
		"the agent's key is unknown, and its token or certificate is invalid: used, expired, or from another fleet",
		"enroll it again: kcp-publisher enroll RUNTIME --kyma NAMESPACE/KYMA --location REGISTRY/PATH; apply its " +
			"output in the runtime"},
	{ForeignKey, Failing,
		"reports are signed with a key that is not the runtime's: two agents use one runtime ID, or the agent lost " +
			"its key",
		"find the right cluster; then kcp-publisher revoke RUNTIME -n NAMESPACE and kcp-publisher enroll RUNTIME " +
			"--kyma NAMESPACE/KYMA --location REGISTRY/PATH"},
	{RuntimeClockAhead, Failing, "the runtime's clock is so far ahead that its reports are refused",
		"set the clock of the runtime's nodes, or the control plane's clock if it is wrong"},
	{ReportRefused, Failing, "the runtime's latest report was refused",
		"follow the message; see the agent's log in the runtime: kubectl logs -n kyma-system deploy/skr-agent"},
	{ReportUnreadable, Silent, "the registry responds but does not return the runtime's report",
		"check the publisher's access to the runtime's reports, and whether the agent pushed one: kubectl logs -n " +
			"kyma-system deploy/skr-agent"},
	{NeverCarried, NeverReported, "the runtime's bundles are carried by hand, and no report was imported yet",
		"export its bundle and import its report: kcp-publisher export RUNTIME --from REGISTRY/PATH -o FILE, " +
			"kcp-publisher import-report FILE --to REGISTRY/PATH"},
	{NeverEnrolled, NeverReported,
		"no report from the runtime was ever accepted: its agent is not installed, not enrolled, or cannot reach the " +
			"registry",
		"enroll it: kcp-publisher enroll RUNTIME --kyma NAMESPACE/KYMA --location REGISTRY/PATH; apply its " +
			"output in the runtime, and see the agent's log"},

	{BundleExpired, Failing, "the runtime's bundle has expired",
		"check that the publisher is running; for a runtime without a network, import a new file: kcp-publisher " +
			"export RUNTIME --from REGISTRY/PATH -o FILE"},
	{BundleWrongRuntime, Failing,
		"the agent received a bundle for another runtime or cluster: its runtime ID or location is wrong, or the " +
			"cluster was recreated",
		"correct the runtime ID or the location in the agent's bootstrap Secret, or enroll the new cluster: " +
			"kcp-publisher enroll RUNTIME --kyma NAMESPACE/KYMA --location REGISTRY/PATH"},
	{BundleDowngrade, Failing, "the bundle has an older version of a module than the installed one",
		"promote a version that is not older, or roll back with its rollout: kcp-publisher rollout list -n " +
			"NAMESPACE"},
	{BundleClock, Failing, "the bundle's issue time is ahead of the runtime's clock",
		"set the clock of the runtime's nodes, or the publisher's clock if it is wrong"},
	{
		BundleKeyUnknown,
		Failing,
		"the agent does not know the signing key, or cannot verify the root of trust that lists it",
		"compare: kcp-publisher keys show, and the agent's root of trust; if an intermediate root was lost, " +
			"enroll the runtime again: kcp-publisher enroll RUNTIME --kyma NAMESPACE/KYMA --location REGISTRY/PATH",
	},
	{BundleRootExpired, Failing, "the agent's root of trust has expired, and no newer one was found",
		"renew it: kcp-publisher keys rotate; and check that the agent can read the repository of roots"},
	{BundleReplayed, Failing,
		"the registry returned an older bundle than the applied one, or two with the same sequence: it was " +
			"manipulated or restored from a backup",
		"find the writer in the registry's access log; after a restore, the publisher corrects the registry by itself"},
	{
		BundleNotReleased,
		Failing,
		"the root of trust requires a release signature or minimum version that the bundle does not meet",
		"release the component, or correct the requirement in the root of trust: kcp-publisher keys show",
	},
	{BundleRefused, Failing, "the agent refused a bundle",
		"follow the message; verify the bundle in the registry: kcp-publisher why RUNTIME -n NAMESPACE " +
			"--location REGISTRY/PATH --trust root.json"},
	{BundleNotKept, Failing, "the agent cannot store a newer bundle in Secrets in kyma-system",
		"check quotas, admission policies and missing permissions in the runtime's namespace kyma-system"},
	{CarriedTooOld, Silent, "reports are carried by hand, and the latest report is older than allowed",
		"import its report: kcp-publisher import-report FILE --to REGISTRY/PATH; or allow more time with the " +
			"annotation kyma-pull.dev/carried"},
	{
		SilentRuntime,
		Silent,
		"the runtime's last report is older than allowed: the cluster is off or disconnected, or its agent is not " +
			"running",
		"check the runtime: kubectl get pods -n kyma-system; if the cluster is gone: kubectl label kyma KYMA -n " +
			"NAMESPACE kyma-pull.dev/runtime-gone=true, and delete the Kyma",
	},
	{CommitHeld, Failing, "a Git commit is partially applied, so bundles are renewed without changes",
		"see why: kubectl get configmap -n NAMESPACE kyma-pull-git -o yaml; then remove the cause, or revert " +
			"the commit in Git"},
	{PublisherAbsent, Silent,
		"no report from the runtime was recorded for more than a day, although the runtime is reporting: no publisher " +
			"reads its reports",
		"check that the publisher is running and has the lease: kubectl get pods,lease -n NAMESPACE"},
	{RuntimeClockBehind, Failing, "the runtime's clock is wrong, or its reports are being delayed",
		"set the clock of the runtime's nodes; if it is right, find the cause of the delay"},

	{RuntimePinsUnreadable, Failing,
		"the annotation kyma-pull.dev/pinned-versions of the runtime's own Kyma is invalid: its previous request " +
			"stays in effect",
		"correct it in the runtime: kubectl edit kyma default -n kyma-system"},
	{ObjectRefused, Failing, "the runtime's API server refuses objects from the bundle, such as the catalog or Manifests",
		"in the runtime, fix the cause that the message names, such as an admission policy or a quota"},
	{SecretsNotWritten, Failing, "the agent cannot write Secrets that were sealed for the runtime",
		"in the runtime, fix the cause that the message names, such as a missing namespace"},
	{
		ReportTruncated,
		Failing,
		"the runtime's Kyma requests more modules than a report can contain: its previous request stays in effect",
		"request fewer modules in the runtime's Kyma",
	},
	{AgentRolledBack, Failing, "the agent's new image failed its trial and was rolled back",
		"see the agent's log; then change or remove the image: --agent-image, or the annotation " +
			"kyma-pull.dev/agent-image of the Kyma"},
	{AgentOutdated, Failing, "the agent does not support some features, so its bundle omits them",
		"upgrade the agent: its chart, --agent-image, or the annotation kyma-pull.dev/agent-image of the Kyma; " +
			"docs/guides/upgrade-and-skew.md"},
	{TakeoverWaits, Failing, "the takeover of the runtime from lifecycle-manager is blocked",
		"see its progress: kcp-publisher takeover status KYMA -n NAMESPACE"},

	{ModuleImmutable, Failing, "the new version changes immutable fields, so objects must be recreated",
		"allow it with the annotation kyma-pull.dev/recreate in the module, or keep the fields unchanged"},
	{ModuleConflict, Failing, "objects of the module already exist and have another owner",
		"delete or rename them, or hand them over in the runtime with the annotation kyma-pull.dev/adopt that the " +
			"message names"},
	{ModuleForbidden, Failing, "the service account that installs the module lacks a permission",
		"grant it in the runtime; which rights a module needs: docs/guides/rights.md"},
	{ModuleProtected, Failing, "the module contains protected objects, such as the agent's own",
		"remove them from the module and release a new version"},
	{ModuleKindUnknown, Failing, "the module has objects of a kind that the runtime does not serve",
		"first install the CustomResourceDefinition, or upgrade the runtime's Kubernetes"},
	{ModuleImagePull, Failing, "an image of the module cannot be pulled: not found, or the credentials were rejected",
		"see the image and the reason: " + logAdvice + "; for a wrong image, undo the rollout: kcp-publisher " +
			"rollout undo ROLLOUT -n NAMESPACE; for rejected credentials, see the image pull Secret: " +
			"docs/guides/secrets.md"},
	{ModuleImages, Failing, "the image rules could not be applied",
		"correct the mirrors and image paths that the message names"},
	{ModuleContentMissing, Failing, "content of the module is missing in the runtime or damaged",
		"check that the agent can read the module's repository; for a runtime without a network, import a complete " +
			"file: kcp-publisher export RUNTIME --from REGISTRY/PATH -o FILE"},
	{ModuleContentBroken, Failing, "the content of the module cannot be read or rendered",
		"correct the module's chart or manifests and release a new version"},
	{ModuleApplyFailed, Failing, "the runtime's API server refuses an object of the module",
		"fix the cause that the message names: the module, or the policy that refuses it"},
	{ModuleNotReadyInTime, Failing, "the module was applied but did not become ready in time",
		"see why its Pods fail: " + logAdvice},
	{CheckFailed, Failing, "the module is ready but fails a check of the rollout that delivered its version",
		"see the values: kcp-publisher rollout show ROLLOUT -n NAMESPACE; then undo it: kcp-publisher rollout " +
			"undo ROLLOUT -n NAMESPACE"},
	{ModuleBroken, Failing, "the module could not be installed, or reports an error",
		"see its Manifest in the runtime: kubectl describe manifest -n kyma-system; without access to the runtime: " +
			logAdvice},
	{ModuleRemovalBlocked, Failing, "the removal of the module is blocked in the runtime",
		"delete the module's custom resources in the runtime"},
	{ModuleWarning, Failing, "the module reports a warning that needs action",
		"follow the message in the runtime"},
	{BundleNotTaken, Failing, "the runtime is reporting but has not applied the latest bundle for over 30m",
		"see its agent's log in the runtime: kubectl logs -n kyma-system deploy/skr-agent"},
	{ModuleStuck, Failing, "the module has been progressing for over 1h",
		"see its Manifest in the runtime: kubectl describe manifest -n kyma-system; without access to the runtime: " +
			logAdvice},

	{Unexplained, Failing, "the Kyma is in state Error or Warning for another reason",
		"see its conditions: kubectl describe kyma KYMA -n NAMESPACE"},
	{DeletionOverdue, Failing, "the deletion of the Kyma takes longer than the publisher's default deletion timeout",
		"check that the publisher is running, and list the remaining finalizers: kubectl get kyma KYMA -n NAMESPACE " +
			"-o jsonpath={.metadata.finalizers}"},
	{DeletionWaits, Deleting, "the Kyma is being deleted, and the runtime is removing its modules",
		"wait; if the cluster is gone: kubectl label kyma KYMA -n NAMESPACE kyma-pull.dev/runtime-gone=true"},
	{RegistryLost, Behind, "the registry lost the runtime's bundle or a part of it; it is being published again",
		"find the cause of deletions in the registry, such as a garbage collection or a retention rule"},
	{CarryPending, Behind,
		"an operator must carry the latest bundle to the runtime, or the runtime's report to the control plane",
		"export it: kcp-publisher export RUNTIME --from REGISTRY/PATH -o FILE, and import the report: kcp-publisher " +
			"import-report FILE --to REGISTRY/PATH"},
	{BundlePending, Behind, "the latest bundle was just published, and the runtime has not reported it yet",
		"wait a minute"},
	{ModuleProcessing, Behind, "the module is being installed, upgraded or removed",
		"wait; if it takes too long: " + logAdvice},

	{NotReady, Behind, "the Kyma is not Ready for another reason",
		"see its conditions: kubectl describe kyma KYMA -n NAMESPACE"},
	{CertificateExpired, Healthy,
		"the agent's certificate has expired: its reports are still accepted, but a control plane that loses its " +
			"data would not recognize the runtime",
		"check why the agent's certificate requests do not arrive: kubectl logs -n kyma-system deploy/skr-agent; and " +
			"that the publisher has the root's enrollment key: kcp-publisher keys show"},
	{
		CertificateExpiresSoon,
		Healthy,
		"the agent's certificate was not renewed in time: less than a third of its validity is left",
		"check why the agent's certificate requests do not arrive: kubectl logs -n kyma-system deploy/skr-agent; and " +
			"that the publisher has the root's enrollment key: kcp-publisher keys show",
	},
	{WatcherNotServed, Healthy, "the runtime does not watch the resources of all Watchers",
		"correct the Watcher that the message names"},
	{
		WindowMissing,
		Healthy,
		"an upgrade requires downtime, and the schedule has no maintenance window that is long enough",
		"configure a longer window, or let the runtime skip windows: spec.skipMaintenanceWindows of its Kyma in KCP; " +
			"docs/guides/maintenance.md",
	},
	{WindowAwaited, Healthy, "an upgrade requires downtime and waits for its maintenance window",
		"wait, or let the runtime skip windows: spec.skipMaintenanceWindows of its Kyma in KCP"},
	{RolloutTookBack, Healthy, "a rollout failed or was undone and rolled the runtime back to its last good version",
		"see why: kcp-publisher rollout show ROLLOUT -n NAMESPACE; then promote a corrected version, or try it " +
			"again: kcp-publisher rollout retry ROLLOUT -n NAMESPACE"},
	{RolloutWithdrawn, Healthy, "a rollout was rolled back before the runtime was updated",
		"no action needed; see why: kcp-publisher rollout show ROLLOUT -n NAMESPACE"},
	{RolloutStopped, Healthy, "a rollout was stopped before the runtime was updated",
		"see why: kcp-publisher rollout show ROLLOUT -n NAMESPACE; then promote a corrected version, or try it " +
			"again: kcp-publisher rollout retry ROLLOUT -n NAMESPACE"},
	{RolloutPaused, Healthy, "a rollout is paused or waits for approval before the runtime's wave",
		"see the reason: kcp-publisher rollout show ROLLOUT -n NAMESPACE; then resume: kcp-publisher rollout " +
			"resume ROLLOUT -n NAMESPACE; or approve a wave: kcp-publisher rollout approve ROLLOUT WAVE -n " +
			"NAMESPACE"},
	{RolloutHolds, Healthy, "a rollout is in progress and has not reached the runtime's wave",
		"wait, or see its progress: kcp-publisher rollout show ROLLOUT -n NAMESPACE"},
	{ModuleRemark, Healthy, "the module is ready and reports a remark",
		"see the message"},

	{RootExpiresSoon, "", "the root of trust expires within 30 days: agents then accept no bundles",
		"renew it: kcp-publisher keys rotate"},
	{CertificatesEnd, "", "certificates of reporting agents were not renewed in time: they have expired or expire soon",
		"check that the publisher has the root's enrollment key: kcp-publisher keys show; then kcp-publisher why " +
			"RUNTIME -n NAMESPACE"},
	{
		VersionRejected,
		"",
		"a channel has a version that a rollout in this or another channel stopped or rolled back",
		"see why: kcp-publisher rollout show ROLLOUT -n NAMESPACE; then promote another version, or try it " +
			"again: kcp-publisher rollout retry ROLLOUT -n NAMESPACE",
	},
	{PolicyInvalid, "",
		"a RolloutPolicy is invalid: its rollouts do not start, so runtimes keep their versions",
		"correct the field: kubectl edit rolloutpolicy -n NAMESPACE POLICY"},
	{PolicyUnmatched, "",
		"a RolloutPolicy names only modules that the catalog does not have: it has no effect, so all runtimes can get a " +
			"version at the same time",
		"correct spec.modules: kubectl edit rolloutpolicy -n NAMESPACE POLICY; or create the policy in the namespace of " +
			"the ModuleReleaseMetas"},
	{
		TrainBlocked,
		"",
		"a version in a promotion train is blocked by a condition that does not resolve by itself",
		"see its conditions: kcp-publisher train status POLICY -n NAMESPACE; docs/runbooks/alerts.md has the steps for " +
			"each",
	},
	{FleetSilent, "",
		"most runtimes that have ever reported are silent: the likely cause is the registry, the network or the publisher",
		"check the registry and the publisher first: kubectl logs -n NAMESPACE deploy/kcp-publisher"},
	{CommitHolds, "", "publishing is on hold while a commit is partially applied",
		"follow the message; docs/guides/git.md"},
	{CatalogObjectLeftOut, "", "all bundles omit a ModuleTemplate or ModuleReleaseMeta, because agents would refuse it",
		"fix the field in the message, or delete the object"},
}

var byName = func() map[Situation]*Description {
	all := make(map[Situation]*Description, len(descriptions))
	for i := range descriptions {
		all[descriptions[i].Situation] = &descriptions[i]
	}
	return all
}()
