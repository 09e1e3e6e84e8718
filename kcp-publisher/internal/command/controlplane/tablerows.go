package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

const (
	maxReadEach = 200
	kymaReaders = 8
)

// ListRows returns Kymas as rows of the API server's table, or nil if a column is missing. For 10,000 Kymas, the table
// is 50 times smaller than the list.
//
// Source: Kubernetes API concepts, "Receiving resources as Tables".
func ListRows(ctx context.Context, api rest.Interface, of KymaSelector) ([]fleet.Row, error) {
	namespaces := []string{of.Namespace}
	if of.Namespace == "" {
		var err error
		if namespaces, err = kymaNamespaces(ctx, api, of); err != nil {
			return nil, err
		}
	}
	var pages rowPages
	for _, namespace := range namespaces {
		of.Namespace = namespace
		for from, more := "", true; more; more = from != "" {
			data, err := tablePage(ctx, api, of, tableOptions{limit: PageSize, from: from, object: metav1.IncludeNone})
			if err == nil {
				from, err = continueToken(data)
			}
			if err != nil {
				return nil, errors.Join(fmt.Errorf("list Kymas as a table: %w", err), pages.decoders.Wait())
			}
			pages.decode(data, namespace)
		}
	}
	return pages.rows()
}

// rowPages decodes pages of a table while the API server sends the next ones.
type rowPages struct {
	pages    []*[]fleet.Row // each element belongs to a goroutine in decoders until the goroutine ends
	decoders errgroup.Group
}

func (p *rowPages) decode(data []byte, namespace string) {
	page := new([]fleet.Row)
	p.pages = append(p.pages, page)
	p.decoders.Go(func() error {
		var table metav1.Table
		if err := json.Unmarshal(data, &table); err != nil {
			return fmt.Errorf("decode a table of Kymas: %w", err)
		}
		*page = tableRows(table, namespace)
		return nil
	})
}

// rows returns the rows of all pages, or nil if a page does not have a required column.
func (p *rowPages) rows() ([]fleet.Row, error) {
	if err := p.decoders.Wait(); err != nil {
		return nil, err
	}
	var rows []fleet.Row
	for _, page := range p.pages {
		if *page == nil {
			return nil, nil
		}
		rows = append(rows, *page...)
	}
	return rows, nil
}

// continueToken returns the token for the next page of a table, or "" for the last page. It does not decode the rows,
// which follow the metadata.
func continueToken(table []byte) (string, error) {
	decoder := json.NewDecoder(bytes.NewReader(table))
	for {
		token, err := decoder.Token()
		if err != nil {
			return "", fmt.Errorf("find the metadata of a table: %w", err)
		}
		if token == "metadata" {
			var metadata metav1.ListMeta
			err := decoder.Decode(&metadata)
			return metadata.Continue, err
		}
	}
}

// kymaNamespaces returns the namespaces that contain Kymas. The API server's tables do not contain the namespace.
// kymaNamespaces therefore requests one Kyma outside the namespaces found so far, and repeats the request until no
// Kyma is left. These requests do not require permission to list Namespaces.
func kymaNamespaces(ctx context.Context, api rest.Interface, of KymaSelector) ([]string, error) {
	var known []string
	others := fields.Everything()
	for {
		of.fields = others
		var table metav1.Table
		data, err := tablePage(ctx, api, of, tableOptions{limit: 1, object: metav1.IncludeMetadata})
		if err == nil {
			err = json.Unmarshal(data, &table)
		}
		if err != nil {
			return nil, fmt.Errorf("find the namespaces of Kymas: %w", err)
		}
		if len(table.Rows) == 0 {
			return known, nil
		}
		var object metav1.PartialObjectMetadata
		if err := json.Unmarshal(table.Rows[0].Object.Raw, &object); err != nil {
			return nil, fmt.Errorf("find the namespaces of Kymas: %w", err)
		}
		if object.Namespace == "" || slices.Contains(known, object.Namespace) {
			return nil,
				errors.New(
					"find the namespaces of Kymas: the API server does not support selecting by metadata.namespace")
		}
		known = append(known, object.Namespace)
		others = fields.AndSelectors(others, fields.OneTermNotEqualSelector("metadata.namespace", object.Namespace))
	}
}

type tableOptions struct {
	limit  int
	from   string
	object metav1.IncludeObjectPolicy
}

// tablePage returns a page of the API server's table of Kymas, encoded as JSON.
func tablePage(ctx context.Context, api rest.Interface, of KymaSelector, options tableOptions) ([]byte, error) {
	request := api.Get().NamespaceIfScoped(of.Namespace, of.Namespace != "").Resource("kymas").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").
		Param("includeObject", string(options.object)).Param("labelSelector", of.Selector.String()).
		Param("limit", strconv.Itoa(options.limit))
	if of.fields != nil && !of.fields.Empty() {
		request = request.Param("fieldSelector", of.fields.String())
	}
	if options.from != "" {
		request = request.Param("continue", options.from)
	}
	result := request.Do(ctx)
	if err := result.Error(); err != nil { // Raw would hide the API server's message
		return nil, err
	}
	return result.Raw()
}

// tableRows returns the rows of a table, or nil if a required column is missing.
func tableRows(table metav1.Table, namespace string) []fleet.Row {
	column := map[string]int{}
	for i, c := range table.ColumnDefinitions {
		column[c.Name] = i
	}
	for _, name := range []string{"Name", "State", "Runtime", "Healthy Until", "Skip Reconciliation", "Deleted"} {
		if _, is := column[name]; !is {
			return nil
		}
	}
	rows := make([]fleet.Row, 0, len(table.Rows))
	for _, row := range table.Rows {
		cell := func(name string) string {
			at, is := column[name]
			if !is || at >= len(row.Cells) || row.Cells[at] == nil {
				return ""
			}
			return fmt.Sprint(row.Cells[at])
		}
		rows = append(rows,
			fleet.Row{Namespace: namespace, Name: cell("Name"), Runtime: cell("Runtime"), State: cell("State"),
				HealthyUntil: cell("Healthy Until"), Running: cell("Running"), ReportTime: cell("Report Time"),
				Skip: cell("Skip Reconciliation"), Deleted: cell("Deleted"),
				Channel: cell("Channel"), Published: cell("Published"), InForce: cell("In Force"), Agent: cell("Agent"),
				Kubernetes: cell("Kubernetes")})
	}
	return rows
}

// ReadDivided reads all Kymas except those that d lists as healthy. It returns the Kymas, and d's healthy runtimes
// whose Kymas it did not read. If d is the zero value, it reads all Kymas.
func ReadDivided(
	ctx context.Context, api client.Reader, of KymaSelector, d DividedRuntimes,
) ([]v1beta2.Kyma, []fleet.Runtime, error) {
	var kymas []v1beta2.Kyma
	var err error
	if len(d.Healthy) > 0 && len(d.unready) > kymaReaders {
		unready := of
		unready.fields = fields.OneTermNotEqualSelector("status.state", string(v1beta2.StateReady))
		kymas, err = ReadKymas(ctx, api, unready)
	}
	if len(d.Healthy) == 0 || apierrors.IsBadRequest(err) { // before Kubernetes 1.31, CRDs have no selectable fields
		kymas, err = ReadKymas(ctx, api, of)
		return kymas, nil, err
	}
	if err != nil {
		return nil, nil, err
	}
	missing := map[types.NamespacedName]bool{}
	for _, name := range slices.Concat(d.unready, d.others) {
		missing[name] = true
	}
	healthy := maps.Clone(d.Healthy)
	for i := range kymas {
		name := client.ObjectKeyFromObject(&kymas[i])
		delete(missing, name)
		delete(healthy, name)
	}
	more, err := ReadEach(ctx, api, slices.Collect(maps.Keys(missing)))
	return append(kymas, more...), slices.Collect(maps.Values(healthy)), err
}

// ReadEach reads single Kymas. It omits Kymas that do not exist.
func ReadEach(ctx context.Context, api client.Reader, names []types.NamespacedName) ([]v1beta2.Kyma, error) {
	var mu sync.Mutex
	var kymas []v1beta2.Kyma
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(kymaReaders)
	for _, name := range names {
		group.Go(func() error {
			var kyma v1beta2.Kyma
			err := api.Get(ctx, name, &kyma)
			switch {
			case apierrors.IsNotFound(err):
				return nil
			case err != nil:
				return fmt.Errorf("read Kyma %s: %w", name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			kymas = append(kymas, kyma)
			return nil
		})
	}
	return kymas, group.Wait()
}

// DivideRows returns the runtimes with a sufficient table row, and the Kymas that must be read because their row is not
// sufficient. It returns the zero value if reading all Kymas is cheaper.
func DivideRows(rows []fleet.Row, sufficient func(fleet.Row) (fleet.Runtime, bool)) DividedRuntimes {
	d := DividedRuntimes{Healthy: map[types.NamespacedName]fleet.Runtime{}}
	for _, row := range rows {
		name := types.NamespacedName{Namespace: row.Namespace, Name: row.Name}
		r, healthy := sufficient(row)
		switch {
		case healthy:
			d.Healthy[name] = r
		case row.State == string(v1beta2.StateReady):
			d.others = append(d.others, name)
		default:
			d.unready = append(d.unready, name)
		}
	}
	return d.ifCheaper()
}

// ifCheaper returns d if reading only its Kymas is cheaper than reading all Kymas, and the zero value otherwise.
func (d DividedRuntimes) ifCheaper() DividedRuntimes {
	if len(d.others) > maxReadEach || len(d.Healthy) < len(d.unready)+len(d.others) {
		return DividedRuntimes{}
	}
	return d
}

// SmallFleet is the maximum number of runtimes in a small fleet. For small fleets, commands read all Kymas and list all
// runtimes.
const SmallFleet = 40
