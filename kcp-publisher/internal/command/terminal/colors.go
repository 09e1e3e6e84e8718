package terminal

import (
	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

// HealthColor returns the color of a health value.
func HealthColor(health fleet.Health) cli.Color {
	switch health {
	case fleet.Failing, fleet.Silent:
		return cli.Red
	case fleet.NeverReported, fleet.Behind:
		return cli.Yellow
	case fleet.Healthy:
		return cli.Green
	case fleet.Suspended, fleet.Deleting:
		return cli.Faint
	}
	return cli.Plain
}

// ColorOfState returns the color of a state.
func ColorOfState(state v1beta2.State) cli.Color {
	switch state {
	case v1beta2.StateError:
		return cli.Red
	case v1beta2.StateWarning, v1beta2.StateProcessing:
		return cli.Yellow
	case v1beta2.StateReady:
		return cli.Green
	case v1beta2.StateDeleting, v1beta2.StateUnmanaged:
		return cli.Faint
	}
	return cli.Plain
}

// ColorOfRollout returns the color of a Rollout's state.
func ColorOfRollout(state v1alpha1.RolloutState) cli.Color {
	switch state {
	case v1alpha1.RolloutRollingBack, v1alpha1.RolloutRolledBack, v1alpha1.RolloutStopped:
		return cli.Red
	case v1alpha1.RolloutSucceeded:
		return cli.Green
	}
	return cli.Plain
}
