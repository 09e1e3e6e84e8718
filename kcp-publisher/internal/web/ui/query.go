package ui

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

const pageSize = 50

// unknown stands for an empty version or value in an address.
const unknown = "-"

// query selects runtimes and determines how the page presents them. It is encoded in the page's address.
type query struct {
	Search     string
	Health     fleet.Health
	State      v1beta2.State
	Module     string
	Version    string
	Channel    string
	Agent      string
	Kubernetes string
	// Label is KEY=VALUE, or KEY alone for any value.
	Label string
	// Cause is the key of the causeGroup to show.
	Cause string
	// Group is the name of a grouping, or empty to list runtimes.
	Group string
	// Column contains the label keys in the table, separated by commas.
	Column string
	// Sort is a column of the table, or label:KEY.
	Sort string
	Page int
}

// maxColumns is the maximum number of label columns. More columns would make the other columns too narrow.
const maxColumns = 2

// Columns returns the keys of the labels in the table.
func (q query) Columns() []string {
	return strings.FieldsFunc(q.Column, func(r rune) bool { return r == ',' })
}

// ColumnChoices returns the keys for the form's lists of labels: the chosen keys, and an empty key if the table has
// space for another column.
func (q query) ColumnChoices() []string {
	chosen := q.Columns()
	if len(chosen) < maxColumns {
		chosen = append(chosen, "")
	}
	return chosen
}

// parseColumns returns the label keys in the values of the parameter column, separated by commas. The form sends one
// value for each key. A link has one value with all keys.
func parseColumns(values []string) string {
	var keys []string
	for key := range strings.SplitSeq(strings.Join(values, ","), ",") {
		key = cleanLine(200, strings.TrimSpace(key))
		if key != "" && !slices.Contains(keys, key) && len(keys) < maxColumns {
			keys = append(keys, key)
		}
	}
	return strings.Join(keys, ",")
}

// fields returns a query's text fields with the names of their URL parameters.
func (q *query) fields() []struct {
	name  string
	value *string
} {
	return []struct {
		name  string
		value *string
	}{
		{"q", &q.Search},
		{"health", (*string)(&q.Health)},
		{"state", (*string)(&q.State)},
		{"module", &q.Module},
		{"version", &q.Version},
		{"channel", &q.Channel},
		{"agent", &q.Agent},
		{"kubernetes", &q.Kubernetes},
		{"label", &q.Label},
		{"cause", &q.Cause},
		{"group", &q.Group},
		{"column", &q.Column},
		{"sort", &q.Sort},
	}
}

func parseQuery(values url.Values) query {
	var q query
	for _, field := range q.fields() {
		*field.value = cleanLine(200, strings.TrimSpace(values.Get(field.name)))
	}
	q.Column, q.Page = parseColumns(values["column"]), 1
	if n, err := strconv.Atoi(values.Get("page")); err == nil && n > 1 {
		q.Page = min(n, 1_000_000)
	}
	return q
}

func (q query) address() string {
	values := url.Values{}
	for _, field := range q.fields() {
		if *field.value != "" {
			values.Set(field.name, *field.value)
		}
	}
	if q.Page > 1 {
		values.Set("page", strconv.Itoa(q.Page))
	}
	if len(values) == 0 {
		return "/"
	}
	return "/?" + values.Encode()
}

func (q query) actAddress() string {
	q.Page = 1
	return "/runtimes" + strings.TrimPrefix(q.address(), "/")
}

// With returns the address of the first page of the query's results after one field is set to value.
func (q query) With(name, value string) string {
	q.Page = 1
	for _, field := range q.fields() {
		if field.name == name {
			*field.value = value
		}
	}
	return q.address()
}

// OnPage returns the address of the given page of the query's results.
func (q query) OnPage(page int) string {
	q.Page = page
	return q.address()
}

func (q *query) matches(r *fleet.Runtime, cause string) bool {
	switch {
	case q.Health != "" && r.Health != q.Health,
		q.Channel != "" && r.Channel != q.Channel,
		q.Agent != "" && valueName(r.Agent) != q.Agent,
		q.Kubernetes != "" && valueName(r.Kubernetes) != q.Kubernetes,
		q.Cause != "" && cause != q.Cause:
		return false
	}
	if q.Label != "" && !hasLabel(r, q.Label) {
		return false
	}
	if q.Module != "" || q.Version != "" {
		if !q.matchesModule(r) {
			return false
		}
	} else if q.State != "" && r.State != q.State {
		return false
	}
	return q.Search == "" || matchesSearch(r, strings.ToLower(q.Search))
}

// matchesModule reports whether one module of the runtime has the queried name, version and state.
func (q *query) matchesModule(r *fleet.Runtime) bool {
	for i := range r.Modules {
		m := &r.Modules[i]
		if (q.Module == "" || m.Name == q.Module) && (q.Version == "" || valueName(m.Version) == q.Version) &&
			(q.State == "" || m.State == q.State) {
			return true
		}
	}
	return false
}

func valueName(value string) string {
	if value == "" {
		return unknown
	}
	return value
}

func hasLabel(r *fleet.Runtime, label string) bool {
	key, want, one := strings.Cut(label, "=")
	value, has := r.Labels[key]
	return one && valueName(value) == want || !one && has
}

// matchesSearch reports whether a visible text of the runtime contains the search text.
func matchesSearch(r *fleet.Runtime, lower string) bool {
	if strings.Contains(strings.ToLower(r.ID), lower) || strings.Contains(strings.ToLower(r.Kyma), lower) {
		return true
	}
	if r.Cause != nil && strings.Contains(strings.ToLower(r.Cause.Message), lower) {
		return true
	}
	for _, value := range r.Labels {
		if strings.Contains(strings.ToLower(value), lower) {
			return true
		}
	}
	return false
}
