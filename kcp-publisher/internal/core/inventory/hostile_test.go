package inventory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	spdxjson "github.com/spdx/tools-golang/json"
)

var hostileParts = []string{
	"registry.example/kyma/keda", "Registry.Example/kyma/keda", "registry.example:443/kyma/keda", "keda", ":1.0",
	"@", ":", "//", "sha256:" + strings.Repeat("a", 64), "\n", "\x1b[2J", "\u202e", "\"", "\\", "module:keda@1.8.0",
	"image:", "fleet", " ", "\xff", "../", "?tag=x&", "%00", strings.Repeat("x", 300), "]]>", "<b>",
}

// Images, modules and problems contain hostile text. The bills of materials must still be valid, with one component
// for each image and module version.
func TestHostileTextsDoNotForgeBillsOfMaterials(t *testing.T) {
	random := rand.New(rand.NewPCG(44, 3))
	text := func() string {
		var b strings.Builder
		for range 1 + random.IntN(4) {
			b.WriteString(hostileParts[random.IntN(len(hostileParts))])
		}
		return b.String()
	}
	for range 3000 {
		contents, runtimes := map[Module]Content{}, []Runtime{}
		for n := range 1 + random.IntN(4) {
			m := Module{Name: text(), Version: text()}
			contents[m] = Content{Images: []string{text(), text()}, Problem: []string{"", text()}[random.IntN(2)]}
			runtimes = append(runtimes, Runtime{ID: fmt.Sprint(n), Reported: time.Unix(1, 0), Modules: []Module{m}})
		}
		f := New(runtimes, contents)
		modules := map[Module]bool{}
		for _, r := range runtimes {
			modules[r.Modules[0]] = true
		}
		bom := f.CycloneDX(text(), time.Unix(1, 0))
		if got, want := len(*bom.Components), len(f.Images)+len(modules); got != want {
			t.Fatalf("got %d components, want %d: %+v", got, want, f)
		}
		refs := map[string]bool{}
		for _, c := range *bom.Components {
			if refs[c.BOMRef] {
				t.Fatalf("two components have reference %q", c.BOMRef)
			}
			refs[c.BOMRef] = true
		}
		var encoded bytes.Buffer
		if err := cyclonedx.NewBOMEncoder(&encoded, cyclonedx.BOMFileFormatJSON).Encode(bom); err != nil {
			t.Fatal(err)
		}
		if !json.Valid(encoded.Bytes()) {
			t.Fatalf("invalid JSON: %s", encoded.String())
		}
		document := f.SPDX("fleet", time.Unix(1, 0))
		ids := map[string]bool{}
		for _, p := range document.Packages {
			id := string(p.PackageSPDXIdentifier)
			if ids[id] {
				t.Fatalf("two packages have identifier %q", id)
			}
			ids[id] = true
			if n := strings.Count(p.PackageComment, propertyRuntimes+": "); n > 1 {
				for _, line := range strings.Split(p.PackageComment, "\n")[1:] {
					if strings.HasPrefix(line, propertyRuntimes) {
						t.Fatalf("forged line in comment %q", p.PackageComment)
					}
				}
			}
			if strings.Count(p.PackageComment, "\n") > 2 {
				t.Fatalf("forged lines in comment %q", p.PackageComment)
			}
		}
		encoded.Reset()
		if err := spdxjson.Write(document, &encoded); err != nil {
			t.Fatal(err)
		}
		if _, err := spdxjson.Read(bytes.NewReader(encoded.Bytes())); err != nil {
			t.Fatalf("the document cannot be read: %v\n%s", err, encoded.String())
		}
	}
}

// An attacker who can choose the names of two images needs only 2^32 attempts to find a 64-bit collision.
func TestPackageIdentifiersDoNotCollide(t *testing.T) {
	if id := elementID("image:registry.example/kyma/keda"); len(id) < len("image-")+64 {
		t.Errorf("identifier %s contains less than a whole SHA-256 digest", id)
	}
}

// A different spelling of an image reference must not hide the image from a search.
func TestSpellingDoesNotHideAnImage(t *testing.T) {
	for _, text := range []string{
		"registry.example/kyma/keda:1", "Registry.Example/kyma/keda:1", "REGISTRY.EXAMPLE:443/kyma/keda:1",
		"registry.example:443/kyma/keda:1@sha256:" + strings.Repeat("a", 64),
	} {
		for _, query := range []string{"registry.example/kyma/keda", "registry.example/kyma/keda:1", "kyma/keda",
			"Registry.example/kyma/keda", "registry.example:443/kyma/keda"} {
			if !matchesImage(text, query) {
				t.Errorf("image %s does not match %s", text, query)
			}
		}
		for _, query := range []string{"registry.example/kyma/keda2", "registry.example:8443/kyma/keda", "eda"} {
			if matchesImage(text, query) {
				t.Errorf("image %s matches %s", text, query)
			}
		}
	}
}

// A module with the maximum number of images runs in many runtimes.
func TestImagesOfManyRuntimesNeedLittleMemory(t *testing.T) {
	m, many := Module{"keda", "1.8.0"}, make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprint("registry.example/image-", i)
	}
	runtimes := make([]Runtime, 2000)
	for i := range runtimes {
		runtimes[i] = Runtime{ID: fmt.Sprint(i), Reported: time.Unix(1, 0), Modules: []Module{m, m}}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f := New(runtimes, map[Module]Content{m: {Images: many}})
	runtime.GC()
	runtime.ReadMemStats(&after)
	used := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) >> 20
	t.Logf("the inventory needs %d MiB", used)
	if used > 8 {
		t.Errorf("the inventory needs %d MiB, must need at most 8 MiB", used)
	}
	if n := len(f.Images[0].Uses[0].Runtimes); n != len(runtimes) {
		t.Errorf("an image has %d runtimes, want %d", n, len(runtimes))
	}
}
