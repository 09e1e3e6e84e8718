package objects

import (
	"context"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// newKyma returns the runtime's Kyma to be made: of a spec whose versions are pins, which the annotation says from then on.
func newKyma(spec v1beta2.KymaSpec, labels, annotations map[string]string) *v1beta2.Kyma {
	kyma := &v1beta2.Kyma{}
	kyma.Namespace, kyma.Name = namespace, v1beta2.RuntimeKymaName
	kyma.Labels, kyma.Annotations = maps.Clone(labels), maps.Clone(annotations)
	var pins string
	if kyma.Spec, pins = spec.Unpinned(); pins != "" {
		kyma.Annotations = with(kyma.Annotations, map[string]string{v1beta2.AnnotationPinnedVersions: pins})
	}
	return kyma
}

// restoredKyma returns the runtime's Kyma as its admin had it.
func (m Memory) restoredKyma(labels, annotations map[string]string) *v1beta2.Kyma {
	if m.Pins == nil {
		return newKyma(*m.Kyma, labels, annotations)
	}
	kyma := newKyma(v1beta2.KymaSpec{}, labels, annotations)
	kyma.Spec = *m.Kyma.DeepCopy() // the versions in it are nobody's pins
	if *m.Pins != "" {
		kyma.Annotations = with(kyma.Annotations, map[string]string{v1beta2.AnnotationPinnedVersions: *m.Pins})
	}
	return kyma
}

// pinsOf returns what a Kyma's annotation says, as a memory has it.
func pinsOf(kyma *v1beta2.Kyma) *string {
	pins := kyma.Annotations[v1beta2.AnnotationPinnedVersions]
	return &pins
}

// unwrittenPins returns what an agent that pinned by spec.modules[].version remembers of pins and the annotation is to say from now on; empty
// for nothing. Only a module that still names no channel is pinned, and an annotation that is there wins.
func (m Memory) unwrittenPins(kyma *v1beta2.Kyma) string {
	if m.Pins != nil || m.Kyma == nil || kyma == nil {
		return ""
	}
	if _, is := kyma.Annotations[v1beta2.AnnotationPinnedVersions]; is {
		return ""
	}
	was := map[string]string{}
	for _, module := range m.Kyma.Modules {
		was[module.Name] = module.Pin()
	}
	spec := *kyma.Spec.DeepCopy()
	for i := range spec.Modules {
		spec.Modules[i].Version = was[spec.Modules[i].Name]
	}
	_, pins := spec.Unpinned()
	return pins
}

// Asked returns what the runtime's Kyma asks for. The error says what cannot be read of it. known is false until the memory was looked at: what
// is asked for must not be told before, as a module that is upgraded for a pin that nobody saw does not go back.
func (k *Keeper) Asked(kyma *v1beta2.Kyma) (spec v1beta2.KymaSpec, known bool, err error) {
	if k.unwritten != "" {
		kyma = kyma.DeepCopy()
		kyma.Annotations = with(kyma.Annotations, map[string]string{v1beta2.AnnotationPinnedVersions: k.unwritten})
	}
	spec, err = kyma.AskedInRuntime()
	return spec, k.looked, err
}

// writePins writes the annotation that takes the place of spec.modules[].version, once, and waits until the cache shows it. Until then the pins
// are in unwritten.
func (k *Keeper) writePins(ctx context.Context, kyma *v1beta2.Kyma) error {
	k.unwritten, k.looked = k.memory.unwrittenPins(kyma), true
	if k.unwritten == "" {
		return nil
	}
	before := kyma.DeepCopy()
	kyma.Annotations = with(kyma.Annotations, map[string]string{v1beta2.AnnotationPinnedVersions: k.unwritten})
	if err := k.Uncached.Patch(ctx, kyma, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("write annotation %s of Kyma %s/%s, which takes the place of spec.modules[].version: %w",
			v1beta2.AnnotationPinnedVersions, kyma.Namespace, kyma.Name, err)
	}
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
		seen := &v1beta2.Kyma{}
		if err := k.Client.Get(ctx, client.ObjectKeyFromObject(kyma), seen); err != nil {
			return false, err
		}
		_, is := seen.Annotations[v1beta2.AnnotationPinnedVersions]
		return is, nil
	})
	if err != nil {
		return fmt.Errorf("see annotation %s of Kyma %s/%s: %w", v1beta2.AnnotationPinnedVersions, kyma.Namespace, kyma.Name, err)
	}
	k.unwritten = ""
	return nil
}
