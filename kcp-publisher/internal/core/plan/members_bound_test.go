package plan

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
)

var padding = strings.Repeat("x", 280)

// hostileRequest returns a Kyma whose runtime requests the largest possible list of modules, with unknown modules that
// differ in every request.
func hostileRequest(name string, request int, snapshot *catalog.Snapshot) v1beta2.Kyma {
	kyma := readyKyma(name)
	kyma.UID, kyma.ResourceVersion = types.UID(name), fmt.Sprint(request)
	requested := &v1beta2.RequestedSpec{Spec: v1beta2.KymaSpec{Channel: "regular"}}
	for i := range 440 {
		module := v1beta2.Module{Name: fmt.Sprint("request-", request, "-module-", i, padding), Managed: true}
		if known := fmt.Sprint("module-", i); snapshot.HasModule(known) && (request>>(i%20))&1 == 0 {
			module.Name = known
		}
		requested.Spec.Modules = append(requested.Spec.Modules, module)
	}
	kyma.Status.Runtime.Requested = requested
	return *kyma
}

func liveBytes() int {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

func TestHostileRequestsDoNotFillMemory(t *testing.T) {
	modules := []string{"keda"}
	for i := range 40 {
		modules = append(modules, fmt.Sprint("module-", i))
	}
	snapshot := offering(t, modules...)
	one := hostileRequest("hostile", 0, snapshot)
	text, err := json.Marshal(one.Status.Runtime.Requested)
	if err != nil || len(text) > bundle.MaxReportBytes {
		t.Fatalf("the request of %d bytes does not fit a report: %v", len(text), err)
	}
	cache := &MemberCache{}
	members := cache.Members([]v1beta2.Kyma{*readyKyma("honest"), one}, snapshot)
	if len(members) != 2 || len(members[0].FollowedChannels) == 0 || len(members[1].FollowedChannels) == 0 {
		t.Fatalf("got %d members %+v, want two members that follow modules", len(members), members)
	}
	before := liveBytes()
	for request := 1; request <= 2000; request++ {
		cache.Members([]v1beta2.Kyma{*readyKyma("honest"), hostileRequest("hostile", request, snapshot)}, snapshot)
	}
	if entries, bytes := cache.follows.Size(); entries > 3 || bytes > 64<<10 {
		t.Errorf("2,000 requests of one runtime occupy %d entries with %d bytes", entries, bytes)
	}
	if grown := liveBytes() - before; grown > 1<<20 {
		t.Errorf("2,000 requests of one runtime occupy %d bytes of live heap", grown)
	}
	for first := 0; first < 1200; first += 300 {
		var kymas []v1beta2.Kyma
		for i := range 300 {
			kymas = append(kymas, hostileRequest(fmt.Sprint("hostile-", first+i), first+i, snapshot))
		}
		cache.Members(kymas, snapshot)
		if _, bytes := cache.follows.Size(); len(cache.members) > 300 || bytes > maxFollowsBytes {
			t.Fatalf("300 runtimes: %d members and %d bytes, want at most %d", len(cache.members), bytes,
				maxFollowsBytes)
		}
	}
	runtime.KeepAlive(cache)
}

// If the cache has evicted an entry, computing it again must return the same result.
func TestEvictedCacheEntriesAreComputedAgain(t *testing.T) {
	snapshot := offering(t, "keda")
	kyma := readyKyma("one")
	kyma.UID, kyma.ResourceVersion = "one", "1"
	cache := &MemberCache{}
	for range 2 {
		if members := cache.Members([]v1beta2.Kyma{*kyma}, snapshot); len(members[0].FollowedChannels) != 1 {
			t.Fatalf("got followed modules %+v, want one", members[0].FollowedChannels)
		}
		known := cache.members[kyma.UID]
		known.channels.Release()
		cache.members[kyma.UID] = known
	}
}

// If a cache key concatenated the parts of these requests without their lengths, the keys would be equal.
func TestCacheKeysOfRequestsAreUnambiguous(t *testing.T) {
	snapshot, seen := offering(t, "keda"), map[requestKey]string{}
	for _, modules := range [][]v1beta2.Module{
		{{Name: "a", Channel: "b"}}, {{Name: "ab"}}, {{Name: "a", Version: "b"}}, {{Name: "a\nb"}},
		{{Name: "a"}, {Name: "b"}},
		{{Name: "a", ControllerName: "b"}}, {{Name: "a", Channel: "b", Managed: true}}, {{Name: "a b"}},
	} {
		kyma := readyKyma("one")
		kyma.Spec.Modules = modules
		request, err := parseRequest(kyma)
		if err != nil {
			t.Fatal(err)
		}
		key := hashRequest(request, snapshot)
		if other, is := seen[key]; is {
			t.Errorf("requests %+v and %s have the same key", modules, other)
		}
		seen[key] = fmt.Sprintf("%+v", modules)
	}
}
