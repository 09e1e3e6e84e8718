package controller

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

// KeyOptions configures the folder with the publisher's keys.
type KeyOptions struct {
	Folder keys.Folder
	// Interval is the interval between folder checks.
	Interval time.Duration
	// Tokens contains the secrets from which enrollment tokens are derived. They come from the same folder as the keys.
	Tokens trust.TokenSecrets
	// Lease is the name of the publisher's Lease.
	Lease string
}

// Keys reloads the folder with the publisher's keys when it changes, and publishes every new version of the root of
// trust.
type Keys struct {
	KeyOptions
	Publisher *publish.Publisher
	// Events receives an Event before the root of trust expires. The Event refers to the publisher's Lease in
	// Namespace.
	Events    events.EventRecorder
	Namespace string

	rootAnnotator rootAnnotator
	onChange      func(context.Context) error
	mu            sync.Mutex // guards Tokens
	loggedProblem string
	// mustReconcile is true if new keys were loaded but the Kymas are not queued yet, for example because of an error.
	mustReconcile bool
}

// The publisher logs a daily warning if the root of trust expires within rootWarning.
const rootWarning = 30 * 24 * time.Hour

func (k *Keys) tokenSecrets() trust.TokenSecrets {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.Tokens
}

// NeedLeaderElection returns true, so that only one process publishes roots of trust.
func (k *Keys) NeedLeaderElection() bool { return true }

// Start checks the folder until the context ends.
func (k *Keys) Start(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx).WithName("keys")
	var warned, checked time.Time
	tick := time.NewTicker(max(k.Interval, time.Second))
	defer tick.Stop()
	for {
		err := k.reloadKeys(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && err.Error() != k.loggedProblem && refusal.Of(err) != nil:
			log.Error(err, "publishing has stopped: runtimes would refuse the signatures of these keys")
			k.loggedProblem = err.Error()
		case err != nil && err.Error() != k.loggedProblem:
			log.Error(err, "failed to load new keys, continuing with the previous ones")
			k.loggedProblem = err.Error()
		case err == nil:
			k.loggedProblem = ""
		}
		now := time.Now()
		k.rootAnnotator.writeNote(ctx, k.Publisher.Root(), now)
		k.announceExpiry(k.Publisher.Root(), checked, now)
		checked = now
		if root := k.Publisher.Root(); time.Until(root.Expires) < rootWarning && time.Since(warned) > 24*time.Hour {
			log.Info("the root of trust expires soon: renew it with `kcp-publisher keys rotate`", "version",
				root.Version, "expires", root.Expires)
			warned = time.Now()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// reloadKeys loads the keys if the folder has changed, and publishes new versions of the root of trust.
func (k *Keys) reloadKeys(ctx context.Context) error {
	loaded, err := k.Folder.Load(ctx)
	if err != nil {
		return err
	}
	tokens, err := k.Folder.TokenSecrets()
	if err != nil {
		return err
	}
	rootExpiry.Set(float64(loaded.Root.Expires.Unix()))
	k.mu.Lock()
	k.Tokens = tokens
	k.mu.Unlock()
	before := k.Publisher.Root()
	replaced, err := k.Publisher.ReplaceKeys(ctx, loaded)
	k.mustReconcile = k.mustReconcile || replaced
	if replaced {
		k.logLoadedKeys(ctx, before, loaded.Root)
	}
	if err != nil {
		return err
	}
	turned, unfit := k.Publisher.CheckKeys(ctx)
	if unfit == nil {
		keysAccepted.Set(1)
	} else if refusal.Of(unfit) != nil {
		keysAccepted.Set(0)
	}
	if !k.mustReconcile && !turned {
		return unfit
	}
	k.mustReconcile = false
	return errors.Join(unfit, k.onChange(ctx))
}

func (k *Keys) logLoadedKeys(ctx context.Context, before, now trust.Root) {
	log := ctrl.LoggerFrom(ctx).WithName("keys")
	if bytes.Equal(before.Raw, now.Raw) {
		log.Info("loaded new signing keys")
		return
	}
	log.Info("loaded a newer root of trust", "version", now.Version, "epoch", now.Epoch, "expires", now.Expires)
}
