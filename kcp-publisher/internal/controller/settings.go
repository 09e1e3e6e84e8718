package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/permission"
)

const (
	// The publisher uses a dry-run request (a probe) to find out whether the API server enforces the admission
	// policy. It repeats the probe after enforcedInterval if the policy is enforced, and after unenforcedInterval
	// otherwise.
	enforcedInterval   = 5 * time.Minute
	unenforcedInterval = 10 * time.Second
	// The API server enforces a new policy only after a delay. If the first probe does not find the policy, the
	// publisher therefore returns errors and probes again for policyDelay. After that, it ignores the settings that
	// require the policy.
	policyDelay = 30 * time.Second
	// The text of the last Event is stored for at most maxWarnings Kymas, so that the same Event is not emitted
	// again.
	maxWarnings = 10_000
)

var errPolicyUnknown = errors.New("failed to probe the admission policy for Kyma settings")

// settingsClient is a client that reads Kymas. If the API server does not enforce the admission policy, the client
// removes restricted settings from the Kymas, because unauthorized users could have set them.
type settingsClient struct {
	client.Client
	events events.EventRecorder
	now    func() time.Time

	mu         sync.Mutex
	hasProbed  bool // a probe has succeeded
	enforced   bool
	firstProbe time.Time // time of the first probe
	nextProbe  time.Time // time of the next probe
	warned     map[types.UID]string
}

func restrictSettings(c client.Client, recorder events.EventRecorder, now func() time.Time) *settingsClient {
	return &settingsClient{Client: c, events: recorder, now: now, warned: map[types.UID]string{}}
}

func (c *settingsClient) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption,
) error {
	if err := c.Client.Get(ctx, key, object, opts...); err != nil {
		return err
	}
	if kyma, is := object.(*v1beta2.Kyma); is {
		return c.restrictKyma(ctx, kyma, true)
	}
	return nil
}

func (c *settingsClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := c.Client.List(ctx, list, opts...); err != nil {
		return err
	}
	kymas, is := list.(*v1beta2.KymaList)
	if !is {
		return nil
	}
	// A probe patches one Kyma in a dry run and can fail because of this Kyma. List returns an error only if the probe
	// failed with every Kyma.
	var failed []*v1beta2.Kyma
	for i := range kymas.Items {
		if err := c.restrictKyma(ctx, &kymas.Items[i], false); err != nil {
			failed = append(failed, &kymas.Items[i])
		}
	}
	for _, kyma := range failed {
		if err := c.restrictKyma(ctx, kyma, false); err != nil {
			return err
		}
	}
	return nil
}

func (c *settingsClient) Patch(
	ctx context.Context, object client.Object, patch client.Patch, opts ...client.PatchOption,
) error {
	return c.restrictWritten(ctx, object, c.Client.Patch(ctx, object, patch, opts...))
}

func (c *settingsClient) restrictWritten(ctx context.Context, object client.Object, err error) error {
	if kyma, is := object.(*v1beta2.Kyma); is && err == nil {
		return c.restrictKyma(ctx, kyma, false)
	}
	return err
}

func (c *settingsClient) restrictKyma(ctx context.Context, kyma *v1beta2.Kyma, warn bool) error {
	settings := permission.IgnoredSettings(kyma)
	if len(settings) == 0 {
		return nil
	}
	enforced, err := c.isEnforced(ctx, kyma)
	if err != nil || enforced {
		return err
	}
	if names := permission.JoinKeys(settings); warn && c.isNew(kyma.UID, names) {
		c.events.Eventf(kyma, nil, corev1.EventTypeWarning, v1beta2.ReasonSettingsIgnored, "Reconcile", "%s", eventNote(
			names+" are ignored, because no admission policy checks the permissions for them: install the chart's policy, "+
				"or run with --trust-kyma-authors",
		))
	}
	permission.RemoveSettings(kyma, settings)
	return nil
}

// isNew reports whether this is the first Event about these settings of the Kyma.
func (c *settingsClient) isNew(kyma types.UID, names string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.warned[kyma] == names {
		return false
	}
	if len(c.warned) >= maxWarnings {
		clear(c.warned)
	}
	c.warned[kyma] = names
	return true
}

// isEnforced reports whether the API server enforces the admission policy. It uses the last probe's result if that is
// recent enough.
func (c *settingsClient) isEnforced(ctx context.Context, kyma *v1beta2.Kyma) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if now.Before(c.nextProbe) {
		return c.enforced, nil
	}
	if c.firstProbe.IsZero() {
		c.firstProbe = now
	}
	target := &v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{Namespace: kyma.Namespace, Name: kyma.Name}}
	err := c.Client.Patch(ctx, target, client.RawPatch(types.MergePatchType, permission.Probe()), client.DryRunAll)
	switch {
	case permission.IsEnforced(err):
		c.hasProbed, c.enforced, c.nextProbe = true, true, now.Add(enforcedInterval)
		clear(c.warned)
		return true, nil
	case err != nil && !permission.IsOutdated(err) && c.hasProbed:
		c.nextProbe = now.Add(unenforcedInterval)
		return c.enforced, nil
	case err != nil && !permission.IsOutdated(err):
		return false, fmt.Errorf("Kyma %s/%s: %w: %w", kyma.Namespace, kyma.Name, errPolicyUnknown, err)
	case now.Sub(c.firstProbe) < policyDelay:
		return false,
			fmt.Errorf("Kyma %s/%s: %w: the API server does not enforce the policy yet", kyma.Namespace, kyma.Name,
				errPolicyUnknown)
	}
	if c.enforced || !c.hasProbed {
		ctrl.LoggerFrom(ctx).
			Info("restricted Kyma settings are ignored: no admission policy checks the permissions for them", "outdated",
				permission.IsOutdated(err))
	}
	c.hasProbed, c.enforced, c.nextProbe = true, false, now.Add(unenforcedInterval)
	return false, nil
}
