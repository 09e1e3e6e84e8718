package plan

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

const allowedSilence = 30 * time.Minute

func TestAnnotationSetsTheAllowedSilence(t *testing.T) {
	const day = 24 * time.Hour
	for annotation, want := range map[string]struct {
		allowed time.Duration
		carried bool
		problem string
	}{
		"":                  {allowedSilence, false, ""},
		"false":             {allowedSilence, false, ""},
		"true":              {90 * day, true, ""},
		"720h":              {30 * day, true, ""},
		"8784h":             {366 * day, true, ""},
		"8785h":             {allowedSilence, false, "at most 8784h"},
		"0s":                {allowedSilence, false, "must be true, or a duration"},
		"-1h":               {allowedSilence, false, "must be true, or a duration"},
		"silence of a year": {allowedSilence, false, "must be true, or a duration"},
	} {
		kyma := &v1beta2.Kyma{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1beta2.AnnotationCarried: annotation}},
		}
		allowed, carried, err := Rules{SilenceTimeout: allowedSilence}.SilenceTimeoutFor(kyma)
		if allowed != want.allowed || carried != want.carried || (err != nil) != (want.problem != "") {
			t.Errorf("annotation %q: got %s, carried %t, %v, want %s, %t", annotation, allowed, carried, err,
				want.allowed,
				want.carried)
		}
		if err != nil &&
			(!strings.Contains(err.Error(), want.problem) ||
				!strings.Contains(err.Error(), v1beta2.AnnotationCarried)) {
			t.Errorf("annotation %q: got %v, want an error with the annotation's name and %q", annotation, err,
				want.problem)
		}
	}
}
