package watch

import (
	"cmp"
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// spacing is how far apart reports of one watch are: a single change is told at once, a storm as often as somebody
// reads.
const spacing = 5 * time.Second

// ledger is what one watch saw: a counter and the objects that changed last. It is pure and bounded: an object that
// changes a thousand times is one entry, and there are at most bundle.MaxWatchedReported of them.
type ledger struct {
	changes int64
	trouble string
	// told is what reports say. It changes only in tell, so that a report says the same until there is news.
	told bundle.ReportedWatch
	// toldAt is when told got its last news.
	toldAt time.Time
	// recent are the objects that changed and are not in told yet, newest last, each once.
	recent []object
}

type object struct{ namespace, name string }

func (l *ledger) changed(o object) {
	l.changes++
	l.recent = slices.DeleteFunc(l.recent, func(known object) bool { return known == o })
	if len(l.recent) == bundle.MaxWatchedReported {
		l.recent = slices.Delete(l.recent, 0, 1)
	}
	l.recent = append(l.recent, o)
}

func (l *ledger) news() bool { return l.changes != l.told.Changes || l.trouble != l.told.Trouble }

// due is how long to wait until news may be told, 0 for now; it is asked only when there is news.
func (l *ledger) due(now time.Time) time.Duration {
	return max(0, l.toldAt.Add(spacing).Sub(now))
}

// tell takes news up into what is told. Since is a sequence that no report had yet and the next one does not fall
// below.
func (l *ledger) tell(since int64, now time.Time) {
	if !l.news() || l.due(now) > 0 {
		return
	}
	l.told.Changes, l.told.Trouble, l.told.Since, l.toldAt = l.changes, l.trouble, since, now
	var all []bundle.WatchedObject
	for _, o := range slices.Backward(l.recent) {
		all = append(all, bundle.WatchedObject{Namespace: o.namespace, Name: o.name, Since: since})
	}
	for _, o := range l.told.Objects {
		if !slices.Contains(l.recent, object{o.Namespace, o.Name}) && len(all) < bundle.MaxWatchedReported {
			all = append(all, o)
		}
	}
	l.told.Objects, l.recent = all, nil
}

// summary returns what all watches tell, by name, each with its fair share of the report's room.
func summary(told []bundle.ReportedWatch) []bundle.ReportedWatch {
	told = slices.DeleteFunc(slices.Clone(told), func(w bundle.ReportedWatch) bool { return w.Since == 0 })
	slices.SortFunc(told, func(a, b bundle.ReportedWatch) int { return cmp.Compare(a.Watcher, b.Watcher) })
	for i := range told {
		objects, room := told[i].Objects, bundle.MaxWatchedNamesBytes/len(told)
		fits := 0
		for fits < len(objects) && fits < bundle.MaxWatchedReported/len(told) && room >= len(objects[fits].Namespace)+len(objects[fits].Name) {
			room -= len(objects[fits].Namespace) + len(objects[fits].Name)
			fits++
		}
		told[i].Objects = objects[:fits:fits]
	}
	return told
}
