package inventory

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
	"github.com/spdx/tools-golang/spdxlib"

	spdxjson "github.com/spdx/tools-golang/json"
)

func TestSPDXDocumentRelatesModulesToImages(t *testing.T) {
	var encoded bytes.Buffer
	if err := json.NewEncoder(&encoded).Encode(example().SPDX("lab fleet", noon)); err != nil {
		t.Fatal(err)
	}
	var read spdx.Document
	if err := spdxjson.ReadInto(&encoded, &read); err != nil {
		t.Fatal(err)
	}
	if err := spdxlib.ValidateDocument(&read); err != nil {
		t.Errorf("the SPDX document is invalid: %v", err)
	}
	names := map[string]string{}
	for _, p := range read.Packages {
		names[string(p.PackageSPDXIdentifier)] = strings.TrimSpace(p.PackageName + " " + p.PackageVersion)
	}
	contains := map[string]bool{}
	for _, r := range read.Relationships {
		contains[names[string(r.RefA.ElementRefID)]+" > "+names[string(r.RefB.ElementRefID)]] = true
	}
	for _, want := range []string{
		"lab fleet > keda 1.0.0", "scaler 1.7.0 > registry.example/kyma/scaler 1.7.0",
		"keda 1.0.0 > registry.example/kyma/keda sha256:" + strings.Repeat("1", 64),
	} {
		if !contains[want] {
			t.Errorf("no relationship %q in %v", want, contains)
		}
	}
	if len(read.Packages) != 9 {
		t.Errorf("got %d packages, want 9: %v", len(read.Packages), names)
	}
	if later := example().SPDX("lab fleet", noon.Add(1e9)); later.DocumentNamespace == read.DocumentNamespace {
		t.Error("documents with different times have the same namespace")
	}
}
