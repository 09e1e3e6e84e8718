package guard

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestModulesCannotContainSecretsOfTheControlPlane(t *testing.T) {
	const secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: registry, namespace: shop"
	require.NoError(t, Check(objects(t, secret+"}"), home))
	require.ErrorContains(t, Check(objects(t, secret+", labels: {kyma-pull.dev/sealed: \"true\"}}"), home),
		"label kyma-pull.dev/sealed marks Secrets from the control plane")
}

func TestStorageObjectsCannotReferToAgentSecrets(t *testing.T) {
	annotated := func(kind, driver, secret string) string {
		return "{" + kind + ", metadata: {name: x, annotations: {" + driver + "-secret-name: " + secret + ", " + driver +
			"-secret-namespace: kyma-system}}}"
	}
	const (
		volume     = "apiVersion: v1, kind: PersistentVolume"
		snapshot   = "apiVersion: snapshot.storage.k8s.io/v1, kind: VolumeSnapshotContent"
		attachment = "{apiVersion: storage.k8s.io/v1, kind: VolumeAttachment, metadata: {name: x}, spec: {source: " +
			"{inlineVolumeSpec: {csi: {controllerPublishSecretRef: {name: "
		deletion, snapshotDeletion = "volume.kubernetes.io/provisioner-deletion", "snapshot.storage.kubernetes.io/deletion"
	)
	for yaml, want := range map[string]string{
		attachment + "skr-agent-key, namespace: kyma-system}}}}}}": "spec.source.inlineVolumeSpec would give its driver " +
			"access to Secret skr-agent-key of the agent",
		attachment + "mine, namespace: kyma-system}}}}}}": "",
		annotated(volume, deletion, "skr-agent-key"): "metadata.annotations." + deletion +
			"-secret-name would give its driver access to a Secret of the agent",
		annotated(volume, deletion, "mine"):                    "",
		annotated(snapshot, snapshotDeletion, "skr-agent-key"): "metadata.annotations." + snapshotDeletion,
		annotated(snapshot, snapshotDeletion, "mine"):          "",
		"{apiVersion: objectstorage.k8s.io/v1alpha1, kind: BucketClass, metadata: {name: x}, parameters: " +
			"{secretName: skr-agent-key, secretNamespace: kyma-system}}": "parameters.secretName would give its driver",
	} {
		err := Check(objects(t, yaml), home)
		if want == "" {
			require.NoError(t, err, yaml)
			continue
		}
		require.ErrorContains(t, err, want, yaml)
	}
}
