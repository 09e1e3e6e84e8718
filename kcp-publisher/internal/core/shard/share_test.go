package shard

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func selector(t *testing.T, text string) labels.Selector {
	t.Helper()
	parsed, err := labels.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestPublisherManagesSelectedKymasOfItsShard(t *testing.T) {
	const runtime = "r"
	at := ShardOf(runtime, 3)
	one := map[string]string{"publisher": "one"}
	for name, c := range map[string]struct {
		share Share
		kyma  map[string]string
		want  bool
	}{
		"whole control plane":                     {Share{}, nil, true},
		"empty selector":                          {Share{Selector: labels.Everything()}, nil, true},
		"one shard":                               {Share{Count: 1}, nil, true},
		"selected Kyma":                           {Share{Selector: selector(t, "publisher=one")}, one, true},
		"Kyma that is not selected":               {Share{Selector: selector(t, "publisher=two")}, one, false},
		"unlabeled Kyma with a selector":          {Share{Selector: selector(t, "publisher=one")}, nil, false},
		"Kyma of this shard":                      {Share{Number: at, Count: 3}, nil, true},
		"Kyma of another shard":                   {Share{Number: (at + 1) % 3, Count: 3}, nil, false},
		"selected Kyma of this shard":             {Share{selector(t, "publisher=one"), at, 3}, one, true},
		"Kyma of this shard that is not selected": {Share{selector(t, "publisher=two"), at, 3}, one, false},
		"selected Kyma of another shard":          {Share{selector(t, "publisher=one"), (at + 1) % 3, 3}, one, false},
		"Kyma with another shard's label":         {Share{Number: at, Count: 3}, shardLabel(at+1, 3), true},
		"Kyma of another shard with this label":   {Share{Number: at + 1, Count: 3}, shardLabel(at+1, 3), false},
		"Kyma with a label of six shards":         {Share{Number: at, Count: 3}, shardLabel(at, 6), true},
	} {
		if got := c.share.Contains(c.kyma, runtime); got != c.want {
			t.Errorf("%s: got contained %t, want %t", name, got, c.want)
		}
	}
}

func shardLabel(number, count int) map[string]string {
	return map[string]string{v1beta2.LabelShard: LabelValue(number, count)}
}

func TestEveryKymaBelongsToExactlyOneShard(t *testing.T) {
	var shares []Share
	for _, c := range []struct {
		selector string
		count    int
	}{{"publisher=one", 4}, {"publisher=two", 1}, {"publisher notin (one,two)", 3}} {
		for number := range c.count {
			shares = append(shares, Share{selector(t, c.selector), number, c.count})
		}
	}
	for i := range 3000 {
		runtime := fmt.Sprint("runtime-", i)
		kyma := map[string]string{"publisher": []string{"one", "two", "three"}[i%3]}
		owners := 0
		for _, s := range shares {
			if !s.Contains(kyma, runtime) {
				continue
			}
			owners++
			if s.Count > 1 { // the planner sets this label
				kyma[v1beta2.LabelShard] = LabelValue(ShardOf(runtime, s.Count), s.Count)
			}
			if !s.CacheSelector().Matches(labels.Set(kyma)) {
				t.Errorf("%s: the cache %s of its share does not contain its Kyma %v", runtime, s.CacheSelector(), kyma)
			}
		}
		if owners != 1 {
			t.Errorf("%s: got %d shares that contain its Kyma, want 1", runtime, owners)
		}
	}
}

func TestCacheSelectorCombinesLabelSelectorAndShard(t *testing.T) {
	for name, c := range map[string]struct {
		share Share
		want  string
	}{
		"whole control plane": {Share{}, ""},
		"selector":            {Share{Selector: selector(t, "a=b")}, "a=b"},
		"shard":               {Share{Number: 2, Count: 6}, "kyma-pull.dev/shard=2-of-6"},
		"selector and shard":  {Share{selector(t, "a=b"), 2, 6}, "a=b,kyma-pull.dev/shard=2-of-6"},
	} {
		if got := c.share.CacheSelector().String(); got != c.want {
			t.Errorf("%s: got the selector %q for the cache, want %q", name, got, c.want)
		}
	}
}

func TestFirstShardEmitsEventsAboutSharedObjects(t *testing.T) {
	first := 0
	for number := range 3 {
		if (Share{Number: number, Count: 3}).IsFirst() {
			first++
		}
	}
	if first != 1 || !(Share{}).IsFirst() {
		t.Errorf("got %d first shards of three, want 1; without shards: %t", first, Share{}.IsFirst())
	}
}

func TestEmptySelectorSelectsAllKymas(t *testing.T) {
	if (Share{}).HasSelector() || (Share{Selector: labels.Everything(), Count: 3}).HasSelector() {
		t.Error("a share without a selector: got selected, want all Kymas")
	}
	if !(Share{Selector: selector(t, "a")}).HasSelector() {
		t.Error("a share with a selector: got all Kymas, want selected")
	}
}

func TestKymaWithoutItsShardLabelIsNotReconciled(t *testing.T) {
	const runtime = "r"
	at, one := ShardOf(runtime, 3), map[string]string{"publisher": "one"}
	labeled := map[string]string{"publisher": "one", v1beta2.LabelShard: LabelValue(at, 3)}
	for name, c := range map[string]struct {
		share Share
		kyma  map[string]string
		want  bool
	}{
		"whole control plane":                  {Share{}, nil, true},
		"selected Kyma":                        {Share{Selector: selector(t, "publisher=one")}, one, true},
		"Kyma that is not selected":            {Share{Selector: selector(t, "publisher=two")}, one, false},
		"Kyma with its shard label":            {Share{Count: 3}, shardLabel(at, 3), true},
		"Kyma without a shard label":           {Share{Count: 3}, one, false},
		"Kyma with the label of another shard": {Share{Count: 3}, shardLabel((at+1)%3, 3), false},
		"Kyma with a label of six shards":      {Share{Count: 3}, shardLabel(at, 6), false},
		"selected Kyma with its shard label":   {Share{Selector: selector(t, "publisher=one"), Count: 3}, labeled, true},
		"labeled Kyma that is not selected":    {Share{Selector: selector(t, "publisher=two"), Count: 3}, labeled, false},
	} {
		if got := c.share.IsReconciled(c.kyma, runtime); got != c.want {
			t.Errorf("%s: got reconciled %t, want %t", name, got, c.want)
		}
		listed := c.share.Others().Matches(labels.Set(c.kyma))
		if wrong := c.kyma[v1beta2.LabelShard] == LabelValue((at+1)%3, 3); !c.want && !wrong && !listed {
			t.Errorf("%s: the list of other Kymas omits the Kyma", name)
		}
	}
}
