package agent

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/agent/subscription"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/watch"
)

// eventDelay is the delay between an event and the reconciliation that it starts. An installation causes many events in
// this time, and they start only one reconciliation.
const eventDelay = 300 * time.Millisecond

// Add adds an Agent and its controller to the manager.
func Add(mgr ctrl.Manager, options Options) error {
	metadataClient, err := metadata.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("create the metadata client: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("create the dynamic client: %w", err)
	}
	agent := newAgent(options)
	agent.watches = watch.New(metadataClient, dynamicClient)
	if agent.Deployment != nil {
		if err := mgr.Add(manager.RunnableFunc(agent.watchImage)); err != nil {
			return fmt.Errorf("watch the agent's image: %w", err)
		}
	}
	if err := mgr.Add(manager.RunnableFunc(agent.Checks.Start)); err != nil {
		return fmt.Errorf("run checks of modules: %w", err)
	}
	if err := mgr.Add(manager.RunnableFunc(agent.restoreCRDsUntilStart)); err != nil {
		return fmt.Errorf("restore definitions: %w", err)
	}
	if agent.Notifications != nil {
		options := subscription.Options{
			Open:   agent.Notifications,
			Notify: agent.notify,
			Log:    mgr.GetLogger().WithName("notifications"),
		}
		if err := mgr.Add(subscription.New(options)); err != nil {
			return fmt.Errorf("connect to notifications: %w", err)
		}
	}
	start := make(chan event.GenericEvent, 1)
	start <- event.GenericEvent{Object: &v1beta2.Kyma{}}
	return ctrl.NewControllerManagedBy(mgr).Named("runtime").
		WatchesRawSource(source.Channel(start, requestAfter(0))).
		WatchesRawSource(source.Channel(agent.Trigger, requestAfter(0))).
		WatchesRawSource(source.Func(func(ctx context.Context, q queue) error {
			agent.watches.Start(ctx, func(wait time.Duration) { q.AddAfter(request, max(wait, eventDelay)) })
			return agent.watchOwnObjects(ctx, metadataClient, q)
		})).
		Watches(&v1beta2.Kyma{}, requestAfter(eventDelay)).
		Watches(&v1beta2.Manifest{}, requestAfter(eventDelay)).
		Watches(&v1beta2.ModuleTemplate{}, requestAfter(eventDelay)).
		Watches(&v1beta2.ModuleReleaseMeta{}, requestAfter(eventDelay)).
		Complete(agent)
}
