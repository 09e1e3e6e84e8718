package bundle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/bundle/window"
)

func TestEqualDocumentsHaveEqualBytes(t *testing.T) {
	first, second := sampleDocuments(t), sampleDocuments(t)
	if !reflect.DeepEqual(first, second) {
		t.Errorf("got documents %+v and %+v, want equal documents", first, second)
	}
	decoded, err := DecodeDesiredState(first.State.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	again, err := EncodeDesiredState(decoded)
	if err != nil || !bytes.Equal(again, first.State.Bytes) {
		t.Errorf("got %s, %v, want %s", again, err, first.State.Bytes)
	}
	catalog, err := DecodeCatalog(first.Catalog.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	again, err = EncodeCatalog(catalog)
	if err != nil || !bytes.Equal(again, first.Catalog.Bytes) {
		t.Errorf("got %s, %v, want %s", again, err, first.Catalog.Bytes)
	}
}

func TestDecodeDesiredStateRefusesInvalidValues(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*DesiredState)
		want   string // part of the error; empty if the document is accepted
	}{
		{"an encoded state is accepted", func(*DesiredState) {}, ""},
		{"a state without modules is accepted", func(s *DesiredState) { s.Manifests = nil }, ""},
		{"a module without content is accepted", func(s *DesiredState) { s.Manifests[0].Content = nil }, ""},
		{
			"a problem with an invalid reason is refused",
			func(s *DesiredState) {
				s.Problems = []Problem{{Module: "x", Reason: "is forbidden"}}
			}, "problems[0].reason",
		},
		{
			"a module without a name is refused", func(s *DesiredState) { s.Manifests[0].Name = "" },
			"manifests[0]: name and module are required",
		},
		{
			"a module without a module name is refused", func(s *DesiredState) { s.Manifests[0].Module = "" },
			"manifests[0]: name and module are required",
		},
		{"a module that appears twice is refused", func(s *DesiredState) {
			s.Manifests = append(s.Manifests, s.Manifests[0])
		}, "manifests[1]: module keda or name keda appears twice"},
		{"two modules with the same name are refused", func(s *DesiredState) {
			first, second := s.Manifests[0], s.Manifests[0]
			first.Module, first.Name = "team/keda", "team-keda"
			second.Module, second.Name = "team-keda", "team-keda"
			s.Manifests = []Manifest{first, second}
		}, "manifests[1]: module team-keda or name team-keda appears twice"},
		{"a module with the name of another module is refused", func(s *DesiredState) {
			s.Manifests[0].Name = "other"
		}, `manifests[0]: name: "other", must be "keda" for module keda`},
		{
			"content without a digest is refused", func(s *DesiredState) { s.Manifests[0].Content[0].Digest = "" },
			"manifests[0]: content[0].digest",
		},
		{
			"content with a tag as digest is refused",
			func(s *DesiredState) { s.Manifests[0].Content[0].Digest = "latest" },
			"manifests[0]: content[0].digest",
		},
		{
			"content with a sha512 digest is accepted",
			func(s *DesiredState) { s.Manifests[0].Content[0].Digest = digest.SHA512.FromString("x") }, "",
		},
		{
			"content with a sha384 digest is refused",
			func(s *DesiredState) {
				s.Manifests[0].Content[0].Digest = digest.SHA384.FromString("x")
			}, "algorithm sha384 is not supported",
		},
		{
			"content with an md5 digest is refused",
			func(s *DesiredState) {
				s.Manifests[0].Content[0].Digest = "md5:d41d8cd98f00b204e9800998ecf8427e"
			}, "manifests[0]: content[0].digest",
		},
		{
			"content with exactly the maximum size is accepted",
			func(s *DesiredState) { s.Manifests[0].Content[0].SizeBytes = MaxLayerBytes }, "",
		},
		{
			"content larger than the maximum size is refused",
			func(s *DesiredState) {
				s.Manifests[0].Content[0].SizeBytes = MaxLayerBytes + 1
			}, "manifests[0]: content[0].size",
		},
		{
			"content with a negative size is refused",
			func(s *DesiredState) { s.Manifests[0].Content[0].SizeBytes = -1 },
			"manifests[0]: content[0].size",
		},
		{"content with a total size above the limit is refused", func(s *DesiredState) {
			content := s.Manifests[0].Content[0]
			content.SizeBytes = MaxLayerBytes
			for range MaxBundleBytes / MaxLayerBytes {
				s.Manifests[0].Content = append(s.Manifests[0].Content, content)
			}
		}, "268435463 bytes of content in total"},
		{"more modules than the limit are refused", func(s *DesiredState) {
			s.Manifests = nil
			for i := range MaxManifests + 1 {
				s.Manifests = append(s.Manifests, Manifest{Name: fmt.Sprint(i), Module: fmt.Sprint(i)})
			}
		}, "manifests: 501 entries, must be at most 500"},
		{"a schedule with windows is accepted", func(s *DesiredState) { s.Maintenance = saturdays() }, ""},
		{
			"a schedule without windows is accepted",
			func(s *DesiredState) { s.Maintenance = &window.Schedule{Windows: []window.Window{}} }, "",
		},
		{"a schedule with an invalid window is refused", func(s *DesiredState) {
			s.Maintenance = saturdays()
			s.Maintenance.Windows[0].Days[0] = "Someday"
		}, `maintenance.windows[0].days[0]: "Someday"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			state := sampleState()
			c.change(&state)
			data, err := EncodeDesiredState(state)
			if err != nil {
				t.Fatal(err)
			}
			_, err = DecodeDesiredState(data)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func saturdays() *window.Schedule {
	return &window.Schedule{
		Windows: []window.Window{{Days: []string{"Sat"}, Begin: "21:00:00Z", End: "00:00:00Z"}},
		Default: &window.Window{Begin: "2026-12-08T20:00:00Z", End: "2026-12-09T00:00:00Z"},
		Minimum: metav1.Duration{Duration: time.Hour},
	}
}

func TestMaintenanceScheduleSurvivesEncoding(t *testing.T) {
	state := sampleState()
	state.Maintenance, state.Manifests[0].RequiresDowntime = saturdays(), true
	data, err := EncodeDesiredState(state)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeDesiredState(data)
	if err != nil || !reflect.DeepEqual(got.Maintenance, saturdays()) || !got.Manifests[0].RequiresDowntime {
		t.Errorf("got schedule %+v, error %v, want the encoded schedule", got.Maintenance, err)
	}
	// A missing schedule and a schedule without windows have opposite meanings.
	state.Maintenance = nil
	without, err := EncodeDesiredState(state)
	if err != nil || bytes.Contains(without, []byte("maintenance")) {
		t.Errorf("state without a schedule: got %s, error %v, want no field maintenance", without, err)
	}
	state.Maintenance = &window.Schedule{}
	if data, err = EncodeDesiredState(state); err != nil {
		t.Fatal(err)
	}
	if got, err := DecodeDesiredState(data); err != nil || got.Maintenance == nil {
		t.Errorf("schedule without windows: got %+v, error %v, want an empty schedule", got.Maintenance, err)
	}
	unknown := bytes.Replace(data, []byte(`"maintenance":{`), []byte(`"maintenance":{"anytime":true,`), 1)
	if got, err := DecodeDesiredState(unknown); err != nil || got.Maintenance == nil {
		t.Errorf("field of a later version: got error %v, want no error", err)
	}
}

func TestDocumentsWithUnsupportedVersionsAreRefused(t *testing.T) {
	documents := sampleDocuments(t)
	for _, replaced := range []string{APIVersion, kindDesiredState, kindCatalog} {
		change := func(data []byte) []byte { return bytes.Replace(data, []byte(replaced), []byte("Other"), 1) }
		if data := change(documents.State.Bytes); !bytes.Equal(data, documents.State.Bytes) {
			if _, err := DecodeDesiredState(data); err == nil {
				t.Errorf("desired state without %s: got no error, want an error", replaced)
			}
		}
		if data := change(documents.Catalog.Bytes); !bytes.Equal(data, documents.Catalog.Bytes) {
			if _, err := DecodeCatalog(data); err == nil {
				t.Errorf("catalog without %s: got no error, want an error", replaced)
			}
		}
	}
}

func TestEncoderAndDecoderRefuseOversizedDocuments(t *testing.T) {
	large := bytes.Repeat([]byte(" "), MaxDocumentBytes+1)
	if _, err := DecodeDesiredState(large); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("desired state: got error %v, want a size limit", err)
	}
	if _, err := DecodeCatalog(large); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("catalog: got error %v, want a size limit", err)
	}
	catalog := Catalog{
		ModuleTemplates: []CatalogEntry{
			{Name: "large", Spec: json.RawMessage(`"` + strings.Repeat("x", MaxDocumentBytes) + `"`)},
		},
	}
	if _, err := NewDocuments(sampleState(), catalog); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("new documents: got error %v, want a size limit", err)
	}
}

func FuzzDecodeDesiredState(f *testing.F) {
	honest := sampleDocuments(f).State.Bytes
	f.Add(honest)
	f.Add(sampleDocuments(f).Catalog.Bytes)
	f.Add([]byte(
		`{"apiVersion":"kyma-pull.dev/v1","kind":"DesiredState","kyma":{"spec":{"channel":"x"}},"manifests":[{"name":"a","module":"a","version":"1","spec":{"remote":true,"install":{"name":"a","source":null},"resource":{}},"content":null}],"crds":null,"settings":{"pollInterval":"1h"}}`))
	for _, d := range differentials(f, "apiVersion") {
		f.Add([]byte(d.change(string(honest))))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		state, err := DecodeDesiredState(data)
		if err != nil {
			return
		}
		encoded, err := EncodeDesiredState(state)
		if err != nil {
			t.Fatalf("decoded state cannot be encoded: %v", err)
		}
		again, err := DecodeDesiredState(encoded)
		if err != nil {
			t.Fatalf("encoded state cannot be decoded: %v", err)
		}
		twice, err := EncodeDesiredState(again)
		if err != nil || !bytes.Equal(twice, encoded) {
			t.Errorf("%s changed to %s when decoded and encoded again, error %v", encoded, twice, err)
		}
	})
}

func FuzzDecodeCatalog(f *testing.F) {
	honest := sampleDocuments(f).Catalog.Bytes
	f.Add(honest)
	f.Add([]byte(
		`{"apiVersion":"kyma-pull.dev/v1","kind":"Catalog","moduleTemplates":[{"name":"a","spec":null}],"moduleReleaseMetas":null}`))
	for _, d := range differentials(f, "apiVersion") {
		f.Add([]byte(d.change(string(honest))))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		catalog, err := DecodeCatalog(data)
		if err != nil {
			return
		}
		encoded, err := EncodeCatalog(catalog)
		if err != nil {
			t.Fatalf("decoded catalog cannot be encoded: %v", err)
		}
		again, err := DecodeCatalog(encoded)
		if err != nil {
			t.Fatalf("encoded catalog cannot be decoded: %v", err)
		}
		twice, err := EncodeCatalog(again)
		if err != nil || !bytes.Equal(twice, encoded) {
			t.Errorf("%s changed to %s when decoded and encoded again, error %v", encoded, twice, err)
		}
	})
}
