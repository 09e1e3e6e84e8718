package install

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// recordApplied records the version that was applied completely. The agent corrects drift of this version while it
// refuses a newer version.
func (i *Installer) recordApplied(ctx context.Context, m *v1beta2.Manifest, known *memo) error {
	if isLastApplied(m) && i.signed(m) {
		known.begun = false
		return nil
	}
	noted, err := i.writeRecord(ctx, m, known, m.RequestedVersion())
	if noted {
		known.begun = false
	}
	return err
}

// begin records that the apply of a new version starts. After an interruption, the agent then does not correct drift
// toward the old version.
func (i *Installer) begin(ctx context.Context, m *v1beta2.Manifest, known *memo) error {
	applied := m.Applied()
	if applied == nil || isLastApplied(m) {
		return nil
	}
	known.begun = true
	wanted := m.RequestedVersion().Digest
	if applied.Begun == wanted || !i.signed(m) {
		return nil // do not sign a record without a valid signature
	}
	applied.Begun = wanted
	_, err := i.writeRecord(ctx, m, known, *applied)
	return err
}

// writeRecord writes the signed record of the applied version to the Manifest's annotations. It reports whether it
// succeeded. A module works without the record, so only temporary errors are returned.
func (i *Installer) writeRecord(
	ctx context.Context, m *v1beta2.Manifest, known *memo, version v1beta2.AppliedVersion,
) (bool, error) {
	next := m.DeepCopy()
	if next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	text, err := json.Marshal(version)
	if err == nil {
		next.Annotations[v1beta2.AnnotationApplied] = string(text)
		next.Annotations[v1beta2.AnnotationAppliedSignature], err = i.sign(m, string(text))
	}
	if err == nil {
		err = i.cluster.Patch(ctx, next, client.MergeFrom(m))
	}
	if err == nil {
		known.recordFailed = false
		next.DeepCopyInto(m)
		return true, nil
	}
	if isTemporary(err) {
		return false, fmt.Errorf("record the applied version: %w", err)
	}
	if !known.recordFailed {
		known.recordFailed = true
		log.FromContext(ctx).
			Error(err,
				"failed to record the applied version, its drift is not corrected while another version is refused",
				"module", m.Module())
	}
	if m.Annotations[v1beta2.AnnotationApplied] == "" {
		return false, nil
	}
	next = m.DeepCopy()
	delete(next.Annotations, v1beta2.AnnotationApplied)
	delete(next.Annotations, v1beta2.AnnotationAppliedSignature)
	if err := i.cluster.Patch(ctx, next, client.MergeFrom(m)); err != nil {
		log.FromContext(ctx).V(1).Info("failed to remove the outdated record of the applied version",
			"module", m.Module(), "error", err.Error())
		return false, nil
	}
	next.DeepCopyInto(m)
	return false, nil
}

// recordSignedAs is the prefix of the signed text. No other signature with the agent's key is valid for a record.
const recordSignedAs = "kyma-pull applied version v1\n"

func signedRecord(m *v1beta2.Manifest, text string) string {
	return recordSignedAs + m.Namespace + "/" + m.Name + "\n" + text
}

// sign returns the signature of a Manifest's record, or "" if no signer is configured.
func (i *Installer) sign(m *v1beta2.Manifest, text string) (string, error) {
	if i.Signer == nil {
		return "", nil
	}
	signature, err := i.Signer.SignMessage(io.Reader(strings.NewReader(signedRecord(m, text))))
	return base64.StdEncoding.EncodeToString(signature), err
}

// signed reports whether this agent signed the Manifest's record of the applied version.
func (i *Installer) signed(m *v1beta2.Manifest) bool {
	if i.Signer == nil {
		return false
	}
	key, err := i.Signer.PublicKey()
	if err != nil {
		return false
	}
	signature, err := base64.StdEncoding.DecodeString(m.Annotations[v1beta2.AnnotationAppliedSignature])
	return err == nil &&
		trust.CheckSignature(key, []byte(signedRecord(m, m.Annotations[v1beta2.AnnotationApplied])), signature)
}

// lastApplied returns a copy of the Manifest with the version that was last applied completely. It returns nil if the
// version is unknown, or if the apply of another version has started. If the requested version is another one, the
// copy has no default CR.
func (i *Installer) lastApplied(m *v1beta2.Manifest) *v1beta2.Manifest {
	applied := m.Applied()
	if applied == nil || applied.Begun != "" || applied.ImagesLeftOut || !i.signed(m) {
		return nil
	}
	was := m.DeepCopy()
	was.Spec.Version, was.Spec.Install, was.Spec.Config = applied.Version, applied.Install, applied.Config
	was.Spec.LocalizedImages = applied.LocalizedImages
	if !isLastApplied(m) {
		was.Spec.Resource = nil
	}
	delete(was.Annotations, v1beta2.AnnotationImages)
	if applied.Images != "" {
		was.Annotations[v1beta2.AnnotationImages] = applied.Images
	}
	delete(was.Annotations, v1beta2.AnnotationValues)
	if applied.Values != "" {
		was.Annotations[v1beta2.AnnotationValues] = applied.Values
	}
	return was
}

// isLastApplied reports whether the requested version was applied completely and no other apply has started.
func isLastApplied(m *v1beta2.Manifest) bool {
	applied := m.Applied()
	return applied != nil && applied.Begun == "" && applied.Digest == m.RequestedVersion().Digest
}

// isBegun reports whether the apply of a Manifest's content has started but not completed.
func isBegun(m *v1beta2.Manifest) bool {
	applied := m.Applied()
	return applied != nil && applied.Begun != "" && applied.Begun == m.RequestedVersion().Digest
}

// hasWrongRecord reports whether the record of the applied version is wrong: it contains another version, or an
// incomplete apply.
func hasWrongRecord(m *v1beta2.Manifest) bool {
	applied := m.Applied()
	return applied != nil && (applied.Begun != "" || applied.Version != m.Spec.Version)
}

// mustCorrectApplied reports whether to correct drift of the last applied version, because the requested version
// failed.
func mustCorrectApplied(m *v1beta2.Manifest, out outcome) bool {
	if out.state != v1beta2.StateError || out.forbidden && isLastApplied(m) {
		return false
	}
	return out.untouched || isLastApplied(m)
}

// correctApplied corrects drift of the last applied version while the requested version is refused. It returns the
// changed objects that are not corrected yet.
func (i *Installer) correctApplied(ctx context.Context, m *v1beta2.Manifest, known *memo, changed keys) keys {
	was := i.lastApplied(m)
	record := m.Annotations[v1beta2.AnnotationApplied]
	whole := known.kept != record || i.now().Sub(known.keptAt) >= i.Resync
	if was == nil || known.begun || !whole && len(changed) == 0 || known.holdBack(i.now()) > 0 {
		return changed
	}
	p, problem, err := i.plan(ctx, was)
	if err != nil || problem != nil {
		return changed // the status reports only the problem of the requested version
	}
	// Check the last applied version like a new version.
	if _, problem, err = i.check(ctx, was, &p); err != nil || problem != nil {
		return changed
	}
	if !whole {
		p.keepOnly(changed)
	}
	p.leaveUnread()
	corrected, wait, err := i.write(ctx, was, known, p, true, changed)
	if len(corrected) > 0 {
		i.recordDrift(ctx, m, corrected)
		known.countCorrection(i.now())
	}
	if wait != "" {
		return changed
	}
	known.kept, known.keptAt = record, i.now()
	left := keys{}
	for k := range failedKeys(err) {
		if changed.has(k) {
			left[k] = struct{}{}
		}
	}
	if err != nil && len(failedKeys(err)) == 0 {
		return changed
	}
	return left
}
