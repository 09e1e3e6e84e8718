package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

const (
	modules = 20
	objects = 1000
)

// measureMemory measures an agent's resident memory: idle with 20 modules, and its peak while it applies 1,000 objects.
func measureMemory(ctx context.Context) ([]result, error) {
	f, err := fleet.Start(ctx, fleet.Options{Measured: true})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names := make([]string, modules)
	for i := range names {
		names[i] = "module-" + strings.Repeat(string(rune('a'+i)), 3)
		if err := offer(ctx, f, mailerAs(names[i], "1.0.0")); err != nil {
			return nil, err
		}
	}
	large := sample.Version{Module: "large", Version: "1.0.0"}
	for i := range objects {
		large.Manifest += fmt.Sprintf(
			"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: large-%d, namespace: kyma-system}\ndata: {text: "+
				"%q}\n",
			i,
			strings.Repeat("x", 200),
		)
	}
	if err := offer(ctx, f, large); err != nil {
		return nil, err
	}
	r, err := f.AddRuntime(ctx, "one", "regular", names...)
	if err != nil {
		return nil, err
	}
	if err := allReady(ctx, r, names, "1.0.0"); err != nil {
		return nil, err
	}
	agent := r.Agent().(*fleet.Process) // every agent on this machine is a fleet.Process
	idle, err := agent.MemoryBytes()
	if err != nil {
		return nil, err
	}
	err = r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
		spec.Modules = append(spec.Modules, v1beta2.Module{
			Name: "large", Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete,
		})
	})
	if err != nil {
		return nil, err
	}
	most, started := idle, time.Now()
	err = fleet.Until(ctx, 3*time.Minute, "1,000 objects are applied", func() (bool, string) {
		if now, err := agent.MemoryBytes(); err == nil {
			most = max(most, now)
		}
		record, err := r.Record(ctx)
		if err != nil {
			return false, err.Error()
		}
		for _, m := range record.Status.Modules {
			if m.Name == "large" && m.State == v1beta2.StateReady {
				return true, ""
			}
		}
		return false, fmt.Sprintf("%+v", record.Status.Modules)
	})
	if err != nil {
		return nil, err
	}
	return []result{
		{fmt.Sprintf("agent's memory at idle with %d modules", modules), fmt.Sprintf("%d MiB", idle>>20), ""},
		{fmt.Sprintf("agent's memory while applying %d objects", objects), fmt.Sprintf("%d MiB", most>>20), ""},
		{
			fmt.Sprintf("from the request to %d objects reported Ready", objects),
			time.Since(started).Round(100 * time.Millisecond).String(),
			"",
		},
	}, nil
}

func offer(ctx context.Context, f *fleet.Fleet, v sample.Version) error {
	if err := f.Offer(ctx, v); err != nil {
		return err
	}
	return f.Release(ctx, v.Module, v.Component(), sample.Channel("regular", v.Version))
}
