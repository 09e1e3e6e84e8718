package fleet

import "fmt"

// maxLeftOut is the maximum number of warnings about left-out objects. One additional warning counts the rest.
const maxLeftOut = 10

// LeftOutWarnings returns a warning for each catalog object that all bundles omit.
func LeftOutWarnings(objects []LeftOutObject) (all []Cause) {
	warn := func(subject, message string) {
		all = append(all, Cause{
			Situation: CatalogObjectLeftOut, Subject: subject, Message: cleanText(message),
			Advice: byName[CatalogObjectLeftOut].Advice,
		})
	}
	for _, o := range objects[:min(len(objects), maxLeftOut)] {
		warn(o.Object, "all bundles omit "+o.Reason)
	}
	if more := len(objects) - maxLeftOut; more > 0 {
		warn("", fmt.Sprintf("all bundles omit %d more catalog objects", more))
	}
	return all
}
