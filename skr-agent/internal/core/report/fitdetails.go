package report

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// limitDetails limits the details for all modules to a number of bytes. Each of the bundle.MaxDetailedModules most
// urgent failing modules gets an equal part, so that one module with large details cannot use up all bytes. More urgent
// modules get the rest. Object lists get only bytes that no failing module needs.
func (f *shortener) limitDetails(maxBytes int) {
	var modules []*bundle.ReportedModule
	for i := range f.report.Modules {
		if f.report.Modules[i].Details != nil {
			modules = append(modules, &f.report.Modules[i])
		}
	}
	slices.SortStableFunc(modules, func(a, b *bundle.ReportedModule) int { return cmp.Compare(urgency(*a), urgency(*b)) })
	lists := make([][]bundle.DetailedObject, len(modules))
	sizes := make([]int, len(modules))
	granted := make([]int, len(modules))
	left, failing := maxBytes, 0
	for i, m := range modules {
		kept := *m.Details
		lists[i] = kept.Objects
		if len(lists[i]) > 0 {
			kept.Objects, kept.LeftOut = nil, kept.LeftOut+len(lists[i])
		}
		if len(kept.Failing) > 0 {
			failing++
		}
		if failing > bundle.MaxDetailedModules && len(kept.Failing) > 0 {
			kept.Failing, kept.Shortened = nil, true
		}
		m.Details, sizes[i] = &kept, detailBytes(kept)
		granted[i] = min(sizes[i], maxBytes/bundle.MaxDetailedModules, left)
		left -= granted[i]
	}
	for i, m := range modules {
		more := min(sizes[i]-granted[i], left)
		left -= more
		m.Details = shortenDetails(*m.Details, granted[i]+more)
	}
	for i, m := range modules {
		if m.Details != nil && len(lists[i]) > 0 {
			left -= addObjects(m.Details, lists[i], left)
		}
		f.omitted.Details = f.omitted.Details || m.Details == nil || m.Details.Shortened
	}
}

// addObjects adds a list of objects that was omitted from the details, if it fits. It returns the number of added
// bytes.
func addObjects(d *bundle.ModuleDetails, objects []bundle.DetailedObject, maxBytes int) int {
	complete := *d
	complete.Objects, complete.LeftOut = objects, d.LeftOut-len(objects)
	size := detailBytes(complete) - detailBytes(*d)
	if size > maxBytes {
		d.Shortened = true
		return 0
	}
	*d = complete
	return size
}

// shortenDetails omits failing objects, and then logs, Events and conditions, until the details fit. It returns nil if
// nothing fits.
func shortenDetails(d bundle.ModuleDetails, maxBytes int) *bundle.ModuleDetails {
	d.Failing = slices.Clone(d.Failing)
	for detailBytes(d) > maxBytes {
		n := len(d.Failing)
		if n == 0 {
			return nil
		}
		d.Shortened = true
		if n > 1 {
			d.Failing, d.LeftOut = d.Failing[:n-1], d.LeftOut+1
			continue
		}
		switch one := &d.Failing[0]; {
		case len(one.Logs) > 0:
			one.Logs = one.Logs[:len(one.Logs)-1]
		case len(one.Events) > 0:
			one.Events = one.Events[1:]
		case len(one.Conditions) > 0:
			one.Conditions = one.Conditions[:len(one.Conditions)-1]
		default:
			return nil
		}
	}
	return &d
}

func detailBytes(d bundle.ModuleDetails) int {
	data, err := json.Marshal(d)
	if err != nil {
		return 0 // ignore the error, because signing the report returns it too
	}
	return len(data)
}
