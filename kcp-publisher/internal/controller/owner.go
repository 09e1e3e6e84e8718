package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// checkOwner returns an error if another Kyma with the same runtime ID owns the runtime.
func (k *Kymas) checkOwner(ctx context.Context, kyma *v1beta2.Kyma) error {
	all, err := k.listClaimants(ctx, kyma)
	if err != nil {
		return err
	}
	return plan.NewOwners(all).Check(kyma)
}

// listClaimants returns all Kymas that have the same runtime ID as this Kyma.
func (k *Kymas) listClaimants(ctx context.Context, kyma *v1beta2.Kyma) ([]v1beta2.Kyma, error) {
	all, err := k.kymasForRuntime(ctx, kyma.Namespace, plan.RuntimeID(kyma))
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(all, func(other v1beta2.Kyma) bool { return other.Name == kyma.Name })
	if all = slices.Clone(all); at >= 0 {
		all[at] = *kyma
	}
	return all, nil
}

// kymasForRuntime returns the Kymas with this runtime ID from the cache. The caller must not modify them.
func (k *Kymas) kymasForRuntime(ctx context.Context, namespace, runtime string) ([]v1beta2.Kyma, error) {
	var kymas v1beta2.KymaList
	if err := k.Client.List(ctx, &kymas, client.InNamespace(namespace), client.MatchingFields{indexRuntime: runtime},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Kymas of runtime %s: %w", runtime, err)
	}
	return kymas.Items, nil
}

// ensureOwner returns an error if another Kyma with the same runtime ID owns the runtime. If an operator has assigned
// the runtime to this Kyma, ensureOwner first makes this Kyma the owner.
func (k *Kymas) ensureOwner(ctx context.Context, kyma *v1beta2.Kyma, rules plan.Rules) error {
	all, err := k.listClaimants(ctx, kyma)
	if err != nil {
		return err
	}
	tokens := k.Keys.tokenSecrets()
	if plan.HandOver(kyma, all, tokens) {
		ctrl.LoggerFrom(ctx).Info("an operator handed the runtime over to this Kyma", "runtime", plan.RuntimeID(kyma))
		return nil
	}
	owners := plan.NewOwners(all)
	refused := owners.Check(kyma)
	if !plan.CanBeAssigned(kyma, refused) {
		return refused
	}
	if kyma.DeletionTimestamp.IsZero() && k.acceptChallenge(ctx, kyma, rules, all, tokens) {
		ctrl.LoggerFrom(ctx).Info("an operator assigned the runtime to this Kyma with a token", "runtime",
			plan.RuntimeID(kyma))
		return nil
	}
	owners.RecordDenied(kyma)
	return refused
}

// recordDenied updates the statuses of all other Kymas with the same runtime ID to show that they do not own the
// runtime. It must succeed before the owner's deletion ends. Otherwise, a suspended Kyma, which is not reconciled,
// could be the only remaining Kyma with the runtime ID and become the owner.
func (k *Kymas) recordDenied(ctx context.Context, owner *v1beta2.Kyma) error {
	all, err := k.listClaimants(ctx, owner)
	if err != nil {
		return err
	}
	owners := plan.NewOwners(all)
	if !owners.Owns(owner) {
		return nil
	}
	for i := range all {
		before := &all[i]
		if owners.Owns(before) {
			continue
		}
		after := before.DeepCopy()
		owners.RecordDenied(after)
		if equality.Semantic.DeepEqual(before.Status, after.Status) {
			continue
		}
		if refused, err := k.patchStatus(ctx, before, after); refused != nil || err != nil {
			return errors.Join(refused, err)
		}
	}
	return nil
}

// acceptChallenge makes this Kyma the owner if the runtime's newest report contains an enrollment token for this
// Kyma. The token must be newer than the tokens of all other Kymas with the same runtime ID. acceptChallenge returns
// false if the report does not contain such a token or the registry does not respond.
func (k *Kymas) acceptChallenge(
	ctx context.Context, kyma *v1beta2.Kyma, rules plan.Rules, all []v1beta2.Kyma, tokens trust.TokenSecrets,
) bool {
	from := rules.ChallengeReporter(kyma, all, tokens, k.Now())
	repository, err := k.Place.Reading(ctx, bundle.ReportRepository(from.Runtime))
	if err != nil {
		return false
	}
	fetched, err := store.Fetch(ctx, repository, bundle.TagLatest)
	if err != nil {
		return false
	}
	from.Content = k.checkReport
	report, err := bundle.VerifyReport(fetched, from)
	if err != nil || !report.Enrolled {
		return false
	}
	plan.AcceptChallenge(kyma, all, k.Now())
	return true
}
