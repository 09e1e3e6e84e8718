package export

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/airgap"
	"github.com/kyma-pull/kyma-pull/hack/suite"
)

func needOf(runtime, kind, name, text string) blobNeed {
	return blobNeed{
		runtime:    runtime,
		kind:       kind,
		name:       name,
		repository: "content",
		item:       airgap.InMemory(bundle.NewBlob("text/plain", []byte(text))),
	}
}

func TestTableOfContentsListsEachKindAndName(t *testing.T) {
	own := func(runtime string) blobNeed {
		n := needOf(runtime, KindBundle, runtime+", sequence 7", "bundle of "+runtime)
		n.isRequired, n.reference = true, "runtimes/"+runtime+":desired"
		return n
	}
	keda, moved := needOf("berlin", KindContent, "keda", "12345"), needOf("berlin", KindContent, "keda", "12345")
	moved.repository = "elsewhere"
	for name, c := range map[string]struct {
		needs []blobNeed
		known map[string]map[blobPlace]bool
		want  []Entry
	}{
		"a new runtime gets all blobs": {
			[]blobNeed{keda, own("berlin")}, nil, []Entry{
				{Kind: KindBundle, Name: "berlin, sequence 7", Runtimes: []string{"berlin"}, Blobs: 1, SizeBytes: 16},
				{Kind: KindContent, Name: "keda", Runtimes: []string{"berlin"}, Blobs: 1, SizeBytes: 5}}},
		"known blobs are omitted, except the bundles' own blobs": {
			[]blobNeed{keda, own("berlin")},
			map[string]map[blobPlace]bool{"berlin": {keda.place(): true, own("berlin").place(): true}}, []Entry{
				{Kind: KindBundle, Name: "berlin, sequence 7", Runtimes: []string{"berlin"}, Blobs: 1, SizeBytes: 16},
				{Kind: KindContent, Name: "keda", Runtimes: []string{"berlin"}, LeftOutBytes: 5}}},
		"a blob that is known in another repository is exported": {
			[]blobNeed{keda}, map[string]map[blobPlace]bool{"berlin": {moved.place(): true}}, []Entry{
				{Kind: KindContent, Name: "keda", Runtimes: []string{"berlin"}, Blobs: 1, SizeBytes: 5}}},
		"runtimes share a blob": {
			[]blobNeed{keda, needOf("munich", KindContent, "keda", "12345")}, nil, []Entry{
				{Kind: KindContent, Name: "keda", Runtimes: []string{"berlin", "munich"}, Blobs: 1, SizeBytes: 5}}},
		"a blob that one of two runtimes needs is exported": {
			[]blobNeed{keda, needOf("munich", KindContent, "keda", "12345")},
			map[string]map[blobPlace]bool{"berlin": {keda.place(): true}}, []Entry{
				{Kind: KindContent, Name: "keda", Runtimes: []string{"berlin", "munich"}, Blobs: 1, SizeBytes: 5}}},
	} {
		t.Run(name, func(t *testing.T) {
			if parcel := selectBlobs(c.needs, c.known); !reflect.DeepEqual(parcel.Contents, c.want) {
				t.Errorf("got  %+v\nwant %+v", parcel.Contents, c.want)
			}
		})
	}
}

func TestExportContainsExactlyTheMissingBlobs(t *testing.T) {
	random := rand.New(rand.NewPCG(suite.Seed(t, 1), 0))
	for range 300 {
		var needs []blobNeed
		known := map[string]map[blobPlace]bool{"a": {}, "b": {}, "c": {}}
		for range random.IntN(40) {
			n := needOf(string(rune('a'+random.IntN(3))), KindContent, fmt.Sprint(random.IntN(5)),
				fmt.Sprint(random.IntN(12)))
			n.isRequired = random.IntN(8) == 0
			needs = append(needs, n)
			known[n.runtime][n.place()] = random.IntN(2) == 0
		}
		parcel := selectBlobs(needs, known)
		carried := map[digest.Digest]bool{}
		for _, item := range parcel.Layout.Items {
			if carried[item.Descriptor.Digest] {
				t.Fatal("a blob is exported twice")
			}
			carried[item.Descriptor.Digest] = true
		}
		wanted := map[digest.Digest]bool{}
		for _, n := range needs {
			lacks := n.isRequired || !known[n.runtime][n.place()]
			if lacks && !carried[n.item.Descriptor.Digest] {
				t.Fatalf("runtime %s needs %s, which is not exported", n.runtime, n.name)
			}
			wanted[n.item.Descriptor.Digest] = wanted[n.item.Descriptor.Digest] || lacks
		}
		for d := range carried {
			if !wanted[d] {
				t.Fatalf("blob %s is exported, although all runtimes have it", d)
			}
		}
		count := int64(0)
		for _, entry := range parcel.Contents {
			count += entry.SizeBytes
		}
		if count != parcel.Layout.SizeBytes() {
			t.Fatalf("the table of contents lists %d bytes, but the file is %d bytes", count,
				parcel.Layout.SizeBytes())
		}
	}
}
