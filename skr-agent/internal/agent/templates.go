package agent

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// templateGenerations returns the generations of the runtime's ModuleTemplates, by name.
func (a *Agent) templateGenerations(ctx context.Context) (map[string]int64, error) {
	var templates v1beta2.ModuleTemplateList
	if err := a.Client.List(ctx, &templates, client.InNamespace(v1beta2.RuntimeNamespace)); err != nil {
		return nil, fmt.Errorf("list ModuleTemplates: %w", err)
	}
	generations := make(map[string]int64, len(templates.Items))
	for i := range templates.Items {
		generations[templates.Items[i].Name] = templates.Items[i].Generation
	}
	return generations, nil
}
