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
