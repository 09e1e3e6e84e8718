package promote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/preview"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/promote"
)

// patchMeta shows the affected runtimes, asks for confirmation, and patches the ModuleReleaseMeta.
func (f *promoteFlags) patchMeta(cmd *cobra.Command, module string) error {
	for flag, isSet := range map[string]bool{"--author": f.commits.author != "", "--branch": f.branch != "",
		"--git-signing-key": f.commits.key != ""} {
		if isSet {
			return cli.Usage(fmt.Errorf("%s requires --git-url", flag))
		}
	}
	ctx := cmd.Context()
	api, err := f.Connect()
	if err != nil {
		return err
	}
	before, err := preview.Read(ctx, api, f.Namespace)
	if err != nil {
		return err
	}
	before.Restricted = f.restricted
	meta, err := before.ReleaseMeta(module)
	if err != nil {
		return err
	}
	if commit := meta.Annotations[v1beta2.AnnotationGitCommit]; commit != "" {
		return fmt.Errorf(
			"module %s: commit %.300q defines its ModuleReleaseMeta %s and would revert the promotion: use --git-url",
			module, commit, meta.Name)
	}
	next := meta.DeepCopy()
	promotion, err := promote.PromoteIn(&next.Spec, f.from, f.to, f.create)
	if errors.Is(err, promote.ErrNothing) {
		cli.Printf(cmd.ErrOrStderr(), "module %s: %v\n", module, err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("module %s: %w", module, err)
	}
	effect, err := before.PromotionEffect(*next, f.Namespace, time.Now())
	if err != nil {
		return err
	}
	effect.Warnings = append(effect.Warnings, interruptedMessages(before.Rollouts, promotion)...)
	return f.apply(ctx, cmd, api, meta, next, promotion, effect)
}

type directPromotion struct {
	promote.Promotion
	Changed bool               `json:"changed"`
	Effect  preview.Difference `json:"effect"`
}

func (f *promoteFlags) apply(
	ctx context.Context, cmd *cobra.Command, api client.Client, meta v1beta2.ModuleReleaseMeta,
	next *v1beta2.ModuleReleaseMeta, p promote.Promotion, effect preview.Difference,
) error {
	result := directPromotion{Promotion: p, Effect: effect}
	out := cmd.OutOrStdout()
	if f.format == "table" {
		cli.Printf(out, "promote %s from %s to %s in channel %s\n", p.Module, cmp.Or(p.From, "no version"), p.To,
			p.Channel)
		effect.Draw(out)
	}
	if !f.commits.dryRun {
		text := fmt.Sprintf("promote %s to %s in channel %s, which changes %s", p.Module, p.To, p.Channel,
			terminal.Pluralize(effect.Changed, "runtime"))
		if err := terminal.Confirm(cmd, f.yes, text); err != nil {
			return err
		}
		patch := client.MergeFromWithOptions(&meta, client.MergeFromWithOptimisticLock{})
		if err := api.Patch(ctx, next, patch, client.FieldOwner("kcp-publisher-promote")); err != nil {
			return fmt.Errorf("change ModuleReleaseMeta %s/%s: %w", meta.Namespace, meta.Name, err)
		}
		result.Changed = true
	}
	if f.format != "table" {
		return cli.Print(out, f.format, result, nil)
	}
	if result.Changed {
		cli.Printf(out, "\npromoted: channel %s of module %s has version %s\n", p.Channel, p.Module, p.To)
	} else {
		fmt.Fprintln(out, "\ndry run: nothing is changed")
	}
	return nil
}

// interruptedMessages returns a message about each unfinished rollout of the promoted module and channel.
func interruptedMessages(rollouts []v1alpha1.Rollout, p promote.Promotion) (messages []string) {
	for i := range rollouts {
		r := &rollouts[i]
		if rollout.TrackOf(r) != (rollout.Track{Module: p.Module, Channel: p.Channel}) {
			continue
		}
		switch state := r.Status.State; {
		case state == v1alpha1.RolloutRollingBack:
			messages = append(messages, fmt.Sprintf("rollout %s is rolling back: runtimes get %s after that", r.Name,
				p.To))
		case !rollout.IsFinished(state):
			messages = append(messages, fmt.Sprintf("rollout %s to %s has not ended (%s): this promotion replaces it",
				r.Name, r.Spec.To, cmp.Or(state, v1alpha1.RolloutProgressing)))
		}
	}
	return messages
}
