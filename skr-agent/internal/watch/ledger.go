package watch

import (
	"cmp"
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// reportInterval is the minimum time between two updates about one watch in the runtime's report.
const reportInterval = 5 * time.Second

// changeLog counts the changes that one watch observed. It also lists the last changed objects, at most
// bundle.MaxWatchedReported.
type changeLog struct {
	changes int64
	trouble string
	// reported is this watch's part of the runtime's report. Only the method reportPending changes it.
	reported bundle.ReportedWatch
	// reportedAt is the time when reportPending last changed reported.
	reportedAt time.Time
	// recent contains the changed objects that are not in reported yet, newest last.
	recent []object
}

type object struct{ namespace, name string }

func (l *changeLog) addObject(o object) {
	l.changes++
	l.recent = slices.DeleteFunc(l.recent, func(known object) bool { return known == o })
	if len(l.recent) == bundle.MaxWatchedReported {
		l.recent = slices.Delete(l.recent, 0, 1)
	}
	l.recent = append(l.recent, o)
}

// hasPending reports whether the watch has changes that are not in l.reported yet.
func (l *changeLog) hasPending() bool {
	return l.changes != l.reported.Changes || l.trouble != l.reported.Trouble
}

// reportDelay returns the time until the runtime's report can include pending changes, or 0 if it can include them now.
func (l *changeLog) reportDelay(now time.Time) time.Duration {
	return max(0, l.reportedAt.Add(reportInterval).Sub(now))
}

// reportPending adds the pending changes to l.reported. sequence is the lowest sequence of a report that contains these
// changes. It must be higher than all previous reports' sequences.
func (l *changeLog) reportPending(sequence int64, now time.Time) {
	if !l.hasPending() || l.reportDelay(now) > 0 {
		return
	}
	l.reported.Changes, l.reported.Trouble, l.reported.Since, l.reportedAt = l.changes, l.trouble, sequence, now
	var all []bundle.WatchedObject
	for _, o := range slices.Backward(l.recent) {
		all = append(all, bundle.WatchedObject{Namespace: o.namespace, Name: o.name, Since: sequence})
	}
	for _, o := range l.reported.Objects {
		if !slices.Contains(l.recent, object{o.Namespace, o.Name}) && len(all) < bundle.MaxWatchedReported {
			all = append(all, o)
		}
	}
	l.reported.Objects, l.recent = all, nil
}

// summary returns the watches that have reported changes, sorted by name. Each watch gets an equal share of the
// report's size, and its object list is shortened to this share.
func summary(reported []bundle.ReportedWatch) []bundle.ReportedWatch {
	reported = slices.DeleteFunc(slices.Clone(reported), func(w bundle.ReportedWatch) bool { return w.Since == 0 })
	slices.SortFunc(reported, func(a, b bundle.ReportedWatch) int { return cmp.Compare(a.Watcher, b.Watcher) })
	for i := range reported {
		objects, room := reported[i].Objects, bundle.MaxWatchedNamesBytes/len(reported)
		fits := 0
		for fits < len(objects) && fits < bundle.MaxWatchedReported/len(reported) &&
			room >= len(objects[fits].Namespace)+len(objects[fits].Name) {
			room -= len(objects[fits].Namespace) + len(objects[fits].Name)
			fits++
		}
		reported[i].Objects = objects[:fits:fits]
	}
	return reported
}
