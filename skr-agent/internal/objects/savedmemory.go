package objects

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/checks"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

const (
	// MemorySecret is the name of the Secret with the agent's memory.
	MemorySecret    = "skr-agent-memory"
	memoryData      = "memory.json.gz"
	memorySignature = "signature"
	// maxMemoryBytes limits the compressed memory, because a Secret can be at most 1 MiB. maxUnpackedBytes limits
	// the decompressed memory.
	maxMemoryBytes   = 900 << 10
	maxUnpackedBytes = 64 << 20
	// signaturePrefix is the prefix of the signed text. The prefix ensures that a signature for another purpose is not
	// valid for the memory, although it is made with the same key.
	signaturePrefix = "kyma-pull agent memory v1\n"
)

// Save writes the Secret with the memory again after the Secret was deleted.
func (k *Restorer) Save(ctx context.Context) error {
	if !k.loaded {
		return nil // nothing to save before the Secret was first read
	}
	k.saved, k.restoredVersions = nil, ""
	return k.saveMemory(ctx, k.memory)
}

// ReadSavedRecords reads the Manifests' record revisions and inventories from the Secret that a Restorer with this
// signer wrote. The installer needs both before it reads records. Both results are empty if the content is damaged.
func ReadSavedRecords(
	ctx context.Context, uncached client.Client, signer trust.Signer,
) (*record.Revisions, *record.Inventories, error) {
	k := &Restorer{
		Uncached: uncached, Signer: signer, Revisions: record.NewRevisions(), Inventories: record.NewInventories(),
	}
	_, _, err := k.readMemory(ctx)
	return k.Revisions, k.Inventories, err
}

// loadMemory reads the memory from its Secret once. If the memory is damaged or has a wrong signature, loadMemory
// returns an error and starts with an empty memory.
func (k *Restorer) loadMemory(ctx context.Context) error {
	if k.loaded {
		return nil
	}
	text, known, err := k.readMemory(ctx)
	if k.loaded = err == nil || errors.Is(err, errDamaged); !k.loaded {
		return err
	}
	k.memory, k.saved = known, text
	return err
}

var errDamaged = errors.New("is damaged and ignored")

// readMemory reads the memory from its Secret, and adds its revisions to k.Revisions and its inventories to
// k.Inventories. Both results are empty if the Secret does not exist. The error is errDamaged if the memory is damaged
// or has a wrong signature.
func (k *Restorer) readMemory(ctx context.Context) (text []byte, known agentMemory, err error) {
	var secret corev1.Secret
	err = k.Uncached.Get(ctx, client.ObjectKey{Namespace: namespace, Name: MemorySecret}, &secret)
	if apierrors.IsNotFound(err) {
		return nil, agentMemory{}, nil
	}
	if err != nil {
		return nil, agentMemory{}, fmt.Errorf("read Secret %s/%s: %w", namespace, MemorySecret, err)
	}
	text, err = k.decodeMemory(secret.Data)
	if err == nil {
		err = json.Unmarshal(text, &known)
	}
	if err != nil {
		return nil, agentMemory{}, fmt.Errorf("Secret %s/%s %w: %w", namespace, MemorySecret, errDamaged, err)
	}
	for _, saved := range known.Manifests {
		m := &v1beta2.Manifest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: saved.Name}}
		k.Revisions.Restore(m, saved.Revision)
		k.Inventories.Restore(m, saved.Synced)
	}
	return text, known, nil
}

// saveMemory keeps next as the new memory. It writes the Secret only if the content changed.
func (k *Restorer) saveMemory(ctx context.Context, next agentMemory) error {
	k.memory, k.restoredVersions = next, ""
	text, err := json.Marshal(next)
	if err != nil {
		return err
	}
	if bytes.Equal(text, k.saved) {
		return nil
	}
	data, err := k.encodeMemory(text)
	if err != nil {
		return fmt.Errorf("save the state of the runtime: %w", err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: MemorySecret}, Data: data}
	// Try Update first. If a quota is exhausted, Create fails with Forbidden even if the Secret exists.
	err = k.Uncached.Update(ctx, secret)
	if apierrors.IsNotFound(err) {
		err = k.Uncached.Create(ctx, secret)
	}
	if err != nil {
		return fmt.Errorf("save the state of the runtime: write Secret %s/%s: %w", namespace, MemorySecret, err)
	}
	k.saved = text
	return nil
}

func (k *Restorer) encodeMemory(text []byte) (map[string][]byte, error) {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write(text); err != nil {
		return nil, err
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	if packed.Len() > maxMemoryBytes {
		return nil, fmt.Errorf("compressed state is %d bytes, must be at most %d", packed.Len(), maxMemoryBytes)
	}
	signature, err := k.Signer.SignMessage(io.MultiReader(bytes.NewReader([]byte(signaturePrefix)),
		bytes.NewReader(packed.Bytes())))
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return map[string][]byte{memoryData: packed.Bytes(), memorySignature: signature}, nil
}

func (k *Restorer) decodeMemory(data map[string][]byte) ([]byte, error) {
	key, err := k.Signer.PublicKey()
	if err != nil {
		return nil, err
	}
	if !trust.CheckSignature(key, append([]byte(signaturePrefix), data[memoryData]...), data[memorySignature]) {
		return nil, errors.New("signature does not match the key of this agent")
	}
	reader, err := gzip.NewReader(bytes.NewReader(data[memoryData]))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(reader, maxUnpackedBytes+1))
	if err == nil && len(text) > maxUnpackedBytes {
		err = fmt.Errorf("decompressed state is more than %d bytes", maxUnpackedBytes)
	}
	return text, err
}

// LoadChecks returns the saved module check results.
func (k *Restorer) LoadChecks(ctx context.Context) ([]checks.Record, error) {
	if err := k.loadMemory(ctx); err != nil {
		return nil, err
	}
	return k.memory.Checks, nil
}

// SaveChecks saves module check results.
func (k *Restorer) SaveChecks(ctx context.Context, records []checks.Record) error {
	if err := k.loadMemory(ctx); err != nil {
		return err
	}
	next := k.memory
	next.Checks = records
	return k.saveMemory(ctx, next)
}
