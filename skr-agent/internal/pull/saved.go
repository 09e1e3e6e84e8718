package pull

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reported is the sequence of the last report that was delivered, 0 before the first.
func (p *Puller) Reported() int64 { return p.reported }

// SaveReported makes the sequence of a report that was delivered survive a restart. The registry has it too, until it is restored from
// an older copy.
func (p *Puller) SaveReported(ctx context.Context, sequence int64) error {
	p.reported = sequence
	if err := p.Save(ctx); err != nil {
		return fmt.Errorf("write Secret %s/%s: %s: %w", p.Namespace, StateSecret, stateReported, err)
	}
	return nil
}

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

// Save writes what must survive a restart, in one request.
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
		secret.Data[stateAccepted], secret.Data[stateManifest], secret.Data[stateBundleRoot] = accepted, p.manifest, p.acceptedUnder
	}
	if p.reported > 0 {
		secret.Data[stateReported] = strconv.AppendInt(nil, p.reported, 10)
	}
	err := p.Client.Update(ctx, secret)
	if apierrors.IsNotFound(err) {
		err = p.Client.Create(ctx, secret)
	}
	return err
}
