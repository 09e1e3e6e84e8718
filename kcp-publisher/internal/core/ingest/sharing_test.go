package ingest

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// A client decodes the API server's response into the status that it sent. At the same time, other goroutines read the
// bundle and the report from which that status was computed.
func TestStatusSharesNoMemoryWithItsInput(t *testing.T) {
	s := healthy()
	s.facts.Published.Predicate.Removals = []string{"old"}
	s.facts.Report.Kyma = &bundle.ReportedKyma{
		Spec: v1beta2.KymaSpec{Channel: "fast", Modules: []v1beta2.Module{{Name: "keda"}}}, Generation: 4,
	}
	object := func(name string) *v1beta2.TrackingObject {
		return &v1beta2.TrackingObject{PartialMeta: v1beta2.PartialMeta{Name: name}}
	}
	s.facts.Report.Modules = append(s.facts.Report.Modules, ready("old"))
	for i := range s.facts.Report.Modules {
		s.facts.Report.Modules[i].Manifest, s.facts.Report.Modules[i].Resource = object("manifest"), object("resource")
	}
	stated := func() string {
		text, err := json.Marshal([]any{s.facts.Report.Report, s.facts.Published.Predicate, s.facts.Published.Versions})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	before := stated()
	RecordReport(&s.before, *s.facts.Report, "key", "thumbprint", noon)
	status := s.status()
	text, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"keda", "mail", "old", "manifest", "resource", "1.0.0"} {
		text = bytes.ReplaceAll(text, []byte(`"`+word+`"`), []byte(`"x`+word+`"`))
	}
	if err := json.Unmarshal(text, &status); err != nil {
		t.Fatal(err)
	}
	if got := stated(); got != before {
		t.Errorf("decoding into the status changed the facts from\n%s\nto\n%s", before, got)
	}
}
