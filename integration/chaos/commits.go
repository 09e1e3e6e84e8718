package chaos

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// gitRecord is the name of the ConfigMap with the publisher's result for a commit.
const gitRecord = "kyma-pull-git"

// isPartial reports whether the API server rejects part of the commit only while the publisher applies it. Otherwise,
// the API server already rejects the commit in the dry run, and the publisher does not apply any object.
func isPartial(step Step) bool { return step.Serial%2 == 1 }

// isReverted reports whether an operator reverts the commit. Otherwise, the operator removes the failure's cause.
func isReverted(step Step) bool { return step.Serial%4 >= 2 }

// refuseCommit pushes a commit that contains a promotion and objects that the API server rejects. Until the commit is
// applied completely, runtimes must not get the promoted version.
func (s *stage) refuseCommit(ctx context.Context, step Step) error {
	s.releasing.Lock() // a restore of the control plane would remove the quota
	defer s.releasing.Unlock()
	files := map[string]any{"releases/" + scaler: release(step.Target)}
	if isPartial(step) {
		if err := limitTemplates(ctx, s.fleet.Control); err != nil {
			return err
		}
		for i, v := range refusedVersions(step.Serial) {
			files[spareFile(step, i)] = v.Template()
		}
	} else {
		files["releases/invalid"] = map[string]any{
			"apiVersion": v1beta2.GroupVersion.String(), "kind": "ModuleReleaseMeta",
			"metadata": map[string]any{"name": "invalid", "namespace": sample.Namespace},
			"spec":     map[string]any{"moduleName": "invalid", "channels": "none"},
		}
	}
	s.checker.Promoted(scaler, step.Target, false)
	s.checker.Incomplete(step.Target)
	if s.channel != step.Target {
		s.refused = refusedCommit{version: step.Target, channel: s.channel, before: s.before, begin: time.Now()}
		s.before, s.channel = s.channel, step.Target
	}
	return s.repo.push(ctx, "promote "+step.Target+" with a mistake", files)
}

func spareFile(step Step, i int) string {
	return fmt.Sprintf("modules/mailer-0.%d.%d", step.Serial, i+1)
}

// repairCommit removes the reason for a refused commit, or reverts the commit, after the publisher has reported it.
func (s *stage) repairCommit(ctx context.Context, step Step) error {
	reported, err := s.isCommitReported(ctx)
	if err != nil {
		return err
	}
	s.releasing.Lock()
	defer s.releasing.Unlock()
	if !reported && s.restoredControl.Before(s.refused.begin) {
		return fmt.Errorf("the publisher does not report that the commit cannot be applied")
	}
	files := map[string]any{}
	if !isPartial(step) {
		files["releases/invalid"] = nil
	}
	if isReverted(step) {
		s.story.Add("the commit of %s is reverted", step.Target)
		for i := range refusedVersions(step.Serial) {
			if isPartial(step) {
				files[spareFile(step, i)] = nil
			}
		}
		if s.restoredControl.Before(s.refused.begin) {
			s.checker.Reverted(step.Target)
		} else {
			s.checker.Complete() // a restore removed the quota, so a publisher may have completed the commit
		}
		if s.before == step.Target { // a later promotion has replaced the version of the commit
			s.before = s.refused.channel
		}
		if s.channel == step.Target {
			s.channel, s.before = s.refused.channel, s.refused.before
		}
		files["releases/"+scaler] = release(s.channel)
	} else {
		s.checker.Complete()
	}
	if err := s.repo.push(ctx, "repair the promotion of "+step.Target, files); err != nil {
		return err
	}
	if isReverted(step) && isPartial(step) && !s.waitUntilReverted(ctx) {
		s.checker.Complete() // without the quota, a publisher can complete the commit before it reads the revert
	}
	return client.IgnoreNotFound(s.fleet.Control.Delete(ctx, &corev1.ResourceQuota{ObjectMeta: templatesQuota}))
}

// waitUntilReverted waits until the publisher has applied the revert of a refused commit. It returns false after 20
// seconds, for example because the publisher was killed.
func (s *stage) waitUntilReverted(ctx context.Context) bool {
	err := fleet.Until(ctx, 20*time.Second, "the revert is applied", func() (bool, string) {
		refused, err := s.isCommitReported(ctx)
		return err == nil && !refused, fmt.Sprint(err)
	})
	return err == nil
}

// isCommitReported reports whether the publisher has recorded that it cannot apply the newest commit.
func (s *stage) isCommitReported(ctx context.Context) (bool, error) {
	record := &corev1.ConfigMap{}
	err := s.fleet.Control.Get(ctx, client.ObjectKey{Namespace: sample.Namespace, Name: gitRecord}, record)
	return record.Data["ready"] == string(metav1.ConditionFalse), client.IgnoreNotFound(err)
}

// templatesQuota is the name of the ResourceQuota that limitTemplates creates.
var templatesQuota = metav1.ObjectMeta{Namespace: sample.Namespace, Name: "templates"}

// limitTemplates creates a ResourceQuota in the control plane that allows only one more ModuleTemplate. A dry run does
// not count toward a quota.
func limitTemplates(ctx context.Context, api client.Client) error {
	const counted = corev1.ResourceName("count/moduletemplates." + v1beta2.Group)
	return fleet.SetQuota(ctx, api, templatesQuota, corev1.ResourceList{counted: resource.MustParse("1")},
		corev1.ResourceList{counted: resource.MustParse("0")})
}

// hideModule commits a change that restricts module scaler to Kymas with the beta label, which no Kyma has. The
// publisher must hold the removals until the change is reverted.
func (s *stage) hideModule(ctx context.Context, hidden bool) error {
	s.releasing.Lock()
	defer s.releasing.Unlock()
	meta := release(s.channel)
	meta.Spec.Beta = hidden
	return s.repo.push(ctx, fmt.Sprintf("beta %t", hidden), map[string]any{"releases/" + scaler: meta})
}

// labelCanary removes the label that makes a runtime a canary, or adds the label again.
func (s *stage) labelCanary(ctx context.Context, id string, labeled bool) error {
	kyma := &v1beta2.Kyma{}
	if err := s.fleet.Control.Get(ctx, client.ObjectKey{Namespace: sample.Namespace, Name: id}, kyma); err != nil {
		return err
	}
	before := kyma.DeepCopy()
	delete(kyma.Labels, stageLabel)
	if labeled {
		kyma.Labels[stageLabel] = newKyma(id).Labels[stageLabel]
	}
	return s.fleet.Control.Patch(ctx, kyma, client.MergeFrom(before))
}
