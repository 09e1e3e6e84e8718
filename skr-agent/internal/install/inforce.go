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

// noteApplied writes down which version is applied whole. It is kept in line from then on, also while a newer one is
// refused.
func (i *Installer) noteApplied(ctx context.Context, m *v1beta2.Manifest, known *memo) error {
	if isInForce(m) && i.signed(m) {
		known.begun = false
		return nil
	}
	noted, err := i.note(ctx, m, known, m.Wanted())
	if noted {
		known.begun = false
	}
	return err
}

// begin records that another version than the one in force is about to be applied. An interrupted apply is not undone.
func (i *Installer) begin(ctx context.Context, m *v1beta2.Manifest, known *memo) error {
	applied := m.Applied()
	if applied == nil || isInForce(m) {
		return nil
	}
	known.begun = true
	wanted := m.Wanted().Digest
	if applied.Begun == wanted || !i.signed(m) {
		return nil // a note that is not followed anyway is not signed here either
	}
	applied.Begun = wanted
	_, err := i.note(ctx, m, known, *applied)
	return err
}

// note reports whether it wrote the record. If the API server refuses it, the refusal is reported once and the earlier
// record is removed, because it is outdated. A module works without the record, so only temporary errors are returned.
func (i *Installer) note(
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
		known.unnoted = false
		next.DeepCopyInto(m)
		return true, nil
	}
	if passing(err) {
		return false, fmt.Errorf("note the version that is applied: %w", err)
	}
	if !known.unnoted {
		known.unnoted = true
		log.FromContext(ctx).
			Error(err,
				"the version that is applied cannot be noted: it is not kept in line while another one is refused",
				"module", m.Module())
	}
	if m.Annotations[v1beta2.AnnotationApplied] == "" {
		return false, nil
	}
	next = m.DeepCopy()
	delete(next.Annotations, v1beta2.AnnotationApplied)
	delete(next.Annotations, v1beta2.AnnotationAppliedSignature)
	if err := i.cluster.Patch(ctx, next, client.MergeFrom(m)); err != nil {
		log.FromContext(ctx).V(1).Info("an old note of the version that is applied stays", "module", m.Module(),
			"error", err.Error())
		return false, nil
	}
	next.DeepCopyInto(m)
	return false, nil
}

// noteSignedAs makes signatures of notes different from all other signatures by the same key.
const noteSignedAs = "kyma-pull applied version v1\n"

func noteMessage(m *v1beta2.Manifest, text string) string {
	return noteSignedAs + m.Namespace + "/" + m.Name + "\n" + text
}

// sign returns the signature of a Manifest's note, empty without a key.
func (i *Installer) sign(m *v1beta2.Manifest, text string) (string, error) {
	if i.Signer == nil {
		return "", nil
	}
	signature, err := i.Signer.SignMessage(io.Reader(strings.NewReader(noteMessage(m, text))))
	return base64.StdEncoding.EncodeToString(signature), err
}

// signed reports whether a Manifest's note is the agent's own, and of this Manifest.
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
		trust.CheckSignature(key, []byte(noteMessage(m, m.Annotations[v1beta2.AnnotationApplied])), signature)
}

// inForce returns the Manifest as it was when it was applied whole last, without its default CR, which is its user's by
// now. It is nil when that is not known, and when another version was begun since.
func (i *Installer) inForce(m *v1beta2.Manifest) *v1beta2.Manifest {
	applied := m.Applied()
	if applied == nil || applied.Begun != "" || applied.ImagesLeftOut || !i.signed(m) {
		return nil
	}
	was := m.DeepCopy()
	was.Spec.Version, was.Spec.Install, was.Spec.Config = applied.Version, applied.Install, applied.Config
	was.Spec.LocalizedImages = applied.LocalizedImages
	if !isInForce(m) {
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

// isInForce reports whether the content of a Manifest was applied completely, and no other version was begun since.
func isInForce(m *v1beta2.Manifest) bool {
	applied := m.Applied()
	return applied != nil && applied.Begun == "" && applied.Digest == m.Wanted().Digest
}

// isBegun reports whether the apply of the content of a Manifest was begun.
func isBegun(m *v1beta2.Manifest) bool {
	applied := m.Applied()
	return applied != nil && applied.Begun != "" && applied.Begun == m.Wanted().Digest
}

// notedWrongly reports whether the record is about another version than the Manifest's, or about a version that was
// begun.
func notedWrongly(m *v1beta2.Manifest) bool {
	applied := m.Applied()
	return applied != nil && (applied.Begun != "" || applied.Version != m.Spec.Version)
}

// keepsInForce reports whether the version in force is corrected after a failed pass.
func keepsInForce(m *v1beta2.Manifest, out outcome) bool {
	if out.state != v1beta2.StateError || out.forbidden && isInForce(m) {
		return false
	}
	return out.untouched || isInForce(m)
}

// keepInForce corrects changes of the version in force while the content of the Manifest is refused. It returns the
// remaining problems. The first call compares all objects, because no watch existed before.
func (i *Installer) keepInForce(ctx context.Context, m *v1beta2.Manifest, known *memo, changed keys) keys {
	was := i.inForce(m)
	record := m.Annotations[v1beta2.AnnotationApplied]
	whole := known.kept != record || i.now().Sub(known.keptAt) >= i.Resync
	if was == nil || known.begun || !whole && len(changed) == 0 || known.holdBack(i.now()) > 0 {
		return changed
	}
	p, problem, err := i.plan(ctx, was)
	if err != nil || problem != nil {
		return changed // its content is gone or not allowed: the Manifest's own problem is reported
	}
	// The rules for new versions apply to this one too.
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
