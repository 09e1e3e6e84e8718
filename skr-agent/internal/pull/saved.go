package pull

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// maxUnsavedTime limits how far the sequence of a sent report can be ahead of the saved sequence. Sequences follow the
// clock, so the agent saves a sequence at most once in this time.
const maxUnsavedTime = time.Minute

// annotationReporter is an annotation on StateSecret with the instance ID of the agent that sent the last report. It is
// not a key of the Secret, because version 0.1.0 agents would include that key in the signed text.
const annotationReporter = "kyma-pull.dev/reporter"

// ReportedSequence returns the saved report sequence, or 0 before the first report. If the clock was set back, it
// returns a sequence that is at least as high as the last sent report's sequence. It reads the Secret, because another
// agent replica may have sent a report while it was the leader.
//
// The sequence is ahead of the clock only if necessary. Otherwise, the agent in a copied or restored cluster could send
// a sequence that the other agent already used.
func (p *Puller) ReportedSequence(ctx context.Context) (int64, error) {
	saved, err := p.readSecret(ctx)
	if err == nil {
		err = p.restoreReported(saved)
	}
	if err == nil && p.reportedSequence > 0 && p.CurrentTime().UnixMilli() <= p.reportedSequence {
		p.reportedSequence += maxUnsavedTime.Milliseconds()
	}
	return p.reportedSequence, client.IgnoreNotFound(err)
}

// UnconfirmedReporter is the saved sender of a report while the agent does not know whether another agent has its key.
const UnconfirmedReporter = "unconfirmed"

// LastReporter returns the saved instance ID of the agent that sent the last report from this cluster, or
// UnconfirmedReporter. It returns "" if the sender is unknown.
func (p *Puller) LastReporter() string { return p.reporter }

// readSecret returns the Secret with the saved state.
func (p *Puller) readSecret(ctx context.Context) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if err := p.Client.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: StateSecret}, secret); err != nil {
		return nil, fmt.Errorf("read Secret %s/%s: %w", p.Namespace, StateSecret, err)
	}
	return secret, nil
}

// SaveReported saves a sent report's sequence and sender in StateSecret, because the registry can be restored from an
// older copy. It does not write other state, because another agent replica may have accepted a bundle. It sends no
// request if StateSecret already contains the sender and a sequence that is less than maxUnsavedTime behind.
func (p *Puller) SaveReported(ctx context.Context, sequence int64, instance string) error {
	p.reportedSequence, p.reporter = sequence, instance
	if p.Preview {
		return nil
	}
	// Try the last written Secret first. Read the Secret only if another process has changed it.
	known := p.writtenSecret
	if known != nil && known.Annotations[annotationReporter] == instance && p.savedSequence > 0 &&
		sequence < p.savedSequence+maxUnsavedTime.Milliseconds() {
		return nil
	}
	err := p.updateReported(ctx, known)
	if known == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		var secret *corev1.Secret
		if secret, err = p.readSecret(ctx); err == nil {
			err = p.updateReported(ctx, secret)
		}
	}
	if apierrors.IsNotFound(err) {
		err = p.Save(ctx)
	}
	if err != nil {
		return fmt.Errorf("write Secret %s/%s: %s: %w", p.Namespace, StateSecret, stateReported, err)
	}
	return nil
}

// updateReported writes the sequence of the last sent report into secret, which the caller read or wrote before. It
// does nothing if secret is nil.
func (p *Puller) updateReported(ctx context.Context, secret *corev1.Secret) error {
	p.writtenSecret = nil
	if secret == nil {
		return nil
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	p.addReported(secret)
	err := p.Client.Update(ctx, secret)
	if err == nil {
		p.writtenSecret = secret
	}
	return err
}

// addReported sets the last sent report's sequence and sender in secret.
func (p *Puller) addReported(secret *corev1.Secret) {
	if p.reporter != "" {
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, annotationReporter, p.reporter)
	}
	p.savedSequence = p.reportedSequence
	secret.Data[stateReported] = strconv.AppendInt(nil, p.savedSequence, 10)
}

func (p *Puller) restoreReported(secret *corev1.Secret) error {
	p.reporter = secret.Annotations[annotationReporter]
	state := secret.Data
	if len(state[stateReported]) == 0 {
		return nil
	}
	sequence, err := strconv.ParseInt(string(state[stateReported]), 10, 64)
	if err != nil {
		return fmt.Errorf("read Secret %s/%s: %s: %w", p.Namespace, StateSecret, stateReported, err)
	}
	p.reportedSequence = sequence
	return nil
}

// readAccepted reads the last accepted bundle's sequence, digest and times from the saved state.
func (p *Puller) readAccepted(state map[string][]byte) (accepted bundle.Accepted, err error) {
	if len(state[stateAccepted]) > 0 {
		if err = json.Unmarshal(state[stateAccepted], &accepted); err != nil {
			err = fmt.Errorf("read Secret %s/%s: %s: %w", p.Namespace, StateSecret, stateAccepted, err)
		}
	}
	return accepted, err
}

// restoreMinimum raises the current epoch and sequence to those of the last accepted bundle, so that the agent refuses
// older bundles. It does not restore the bundle itself.
func (p *Puller) restoreMinimum(state map[string][]byte) error {
	accepted, err := p.readAccepted(state)
	if err == nil && !p.isReplaced(accepted) && cmp.Or(
		cmp.Compare(accepted.Epoch, p.accepted.Epoch), cmp.Compare(accepted.Sequence, p.accepted.Sequence)) > 0 {
		p.accepted, p.manifest, p.acceptedRoot = accepted, nil, nil
	}
	return err
}

// Save writes the complete state to the Secret. The next process restores the state from this Secret.
func (p *Puller) Save(ctx context.Context) error {
	if p.Preview {
		return nil
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: StateSecret},
		Data:       map[string][]byte{stateRoot: p.Trust.Root.Raw},
	}
	if p.accepted != (bundle.Accepted{}) {
		accepted, err := json.Marshal(p.accepted)
		if err != nil {
			return err
		}
		secret.Data[stateAccepted] = accepted
	}
	if p.manifest != nil {
		secret.Data[stateManifest], secret.Data[stateBundleRoot] = p.manifest, p.acceptedRoot
	}
	if location := p.encodeLocation(); location != nil {
		secret.Data[stateLocation] = location
	}
	if err := p.signState(secret.Data); err != nil {
		return err
	}
	p.writtenSecret, p.savedSequence = nil, 0
	if p.reportedSequence > 0 {
		p.addReported(secret)
	}
	err := p.Client.Update(ctx, secret)
	if apierrors.IsNotFound(err) {
		err = p.Client.Create(ctx, secret)
	}
	if err == nil {
		p.writtenSecret = secret
	}
	return err
}
