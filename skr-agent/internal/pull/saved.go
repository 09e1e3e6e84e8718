package pull

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reported returns the sequence of the last sent report, or 0 before the first report. It reads the Secret, because
// another leader can have sent a report.
func (p *Puller) Reported(ctx context.Context) (int64, error) {
	saved, err := p.saved(ctx)
	if err == nil {
		err = p.restoreReported(saved.Data)
	}
	return p.reported, client.IgnoreNotFound(err)
}

// saved returns the Secret with the saved state.
func (p *Puller) saved(ctx context.Context) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if err := p.Client.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: StateSecret}, secret); err != nil {
		return nil, fmt.Errorf("read Secret %s/%s: %w", p.Namespace, StateSecret, err)
	}
	return secret, nil
}

// SaveReported saves the sequence of a sent report, in case the registry is restored from an older copy. It writes no
// other state, because another agent can have accepted a bundle.
func (p *Puller) SaveReported(ctx context.Context, sequence int64) error {
	p.reported = sequence
	if p.Preview {
		return nil
	}
	// Read the Secret only if another process changed it.
	known := p.written
	err := p.updateReported(ctx, known)
	if known == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		var secret *corev1.Secret
		if secret, err = p.saved(ctx); err == nil {
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

// updateReported writes the sequence into secret, which was read or written before. It does nothing for nil.
func (p *Puller) updateReported(ctx context.Context, secret *corev1.Secret) error {
	p.written = nil
	if secret == nil {
		return nil
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[stateReported] = p.encodedReported()
	err := p.Client.Update(ctx, secret)
	if err == nil {
		p.written = secret
	}
	return err
}

func (p *Puller) encodedReported() []byte { return strconv.AppendInt(nil, p.reported, 10) }

func (p *Puller) restoreReported(state map[string][]byte) error {
	if len(state[stateReported]) == 0 {
		return nil
	}
	sequence, err := strconv.ParseInt(string(state[stateReported]), 10, 64)
	if err != nil {
		return fmt.Errorf("read Secret %s/%s: %s: %w", p.Namespace, StateSecret, stateReported, err)
	}
	p.reported = sequence
	return nil
}

// Save saves the complete state for the next process.
func (p *Puller) Save(ctx context.Context) error {
	if p.Preview {
		return nil
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: StateSecret},
		Data:       map[string][]byte{stateRoot: p.Trust.Root.Raw},
	}
	if p.manifest != nil {
		accepted, err := json.Marshal(p.accepted)
		if err != nil {
			return err
		}
		secret.Data[stateAccepted], secret.Data[stateManifest], secret.Data[stateBundleRoot] = accepted, p.manifest,
			p.acceptedUnder
	}
	if p.reported > 0 {
		secret.Data[stateReported] = p.encodedReported()
	}
	if location := p.savedLocation(); location != nil {
		secret.Data[stateLocation] = location
	}
	p.written = nil
	err := p.Client.Update(ctx, secret)
	if apierrors.IsNotFound(err) {
		err = p.Client.Create(ctx, secret)
	}
	if err == nil {
		p.written = secret
	}
	return err
}
