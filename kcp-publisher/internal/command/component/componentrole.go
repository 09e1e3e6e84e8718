package component

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/internal/render"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/flagset"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/assemble"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/component"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/modulerole"
)

type roleFlags struct {
	capabilityFlags
	components    flagset.ComponentFlags
	registry      cli.Registry
	name, account string
}

func newComponentRole() *cobra.Command {
	f := &roleFlags{}
	cmd := &cobra.Command{
		Use: "role NAME:VERSION...", Short: "print the permissions that an agent needs for modules",
		Args: cli.AtLeastOne("NAME:VERSION"),
		Long: "role renders component versions as the agents do, and prints the ClusterRole, the Roles and their " +
			"bindings\n" +
			"that let an agent without rbac.clusterAdmin install, upgrade and remove them. List every version that " +
			"the\n" +
			"runtime has or will get, because an upgrade removes objects of the earlier version.",
		Example: "  kcp-publisher component role example.org/module/mailer:1.0.0 --components " +
			"registry.example/modules |\n" +
			"    kubectl --context RUNTIME apply -f -",
		RunE: f.run,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.name, "name", "skr-agent-module-set", "name of the ClusterRole, the Roles and their bindings")
	flags.StringVar(&f.account, "service-account", modulerole.AgentNamespace+"/skr-agent",
		"ServiceAccount that gets the permissions, as NAMESPACE/NAME: the agent's ServiceAccount, or "+
			"modules.serviceAccount of the agent's chart")
	f.addCapabilities(flags)
	f.components.Add(flags, flags)
	f.registry.AddFlags(flags)
	return cmd
}

func (f *roleFlags) run(cmd *cobra.Command, args []string) (err error) {
	namespace, account, ok := strings.Cut(f.account, "/")
	if !ok || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(account)) > 0 {
		return cli.Usage(fmt.Errorf("--service-account %q: must be NAMESPACE/NAME", f.account))
	}
	if len(validation.IsDNS1123Subdomain(f.name)) > 0 {
		return cli.Usage(
			fmt.Errorf("--name %q: must be a Kubernetes name of lowercase letters, digits, dashes and dots", f.name))
	}
	registries, err := f.registry.Registries(store.Access{})
	if err != nil {
		return err
	}
	opened, err := f.components.Open(component.Options{
		Registries: registries, Revalidate: time.Hour, RetryAfter: time.Hour,
	}, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	confined := render.Confined{Command: []string{self, RenderCommand}}
	var all []*unstructured.Unstructured
	for _, arg := range args {
		name, version, ok := strings.Cut(arg, ":")
		if !ok {
			return cli.Usage(fmt.Errorf("component %q: must be NAME:VERSION, such as kyma-project.io/module/keda:1.8.0",
				arg))
		}
		found, err := opened.Reader.Component(cmd.Context(), name, version)
		if err != nil {
			return err
		}
		objects, err := renderComponent(cmd.Context(), opened.Reader, found, confined, f.capabilities())
		if err != nil {
			return fmt.Errorf("component %s: %w", arg, err)
		}
		all = append(all, objects...)
	}
	objects, err := modulerole.Grant{Name: f.name, Namespace: namespace, Account: account}.Objects(all)
	if err != nil {
		return err
	}
	return writeRole(cmd.OutOrStdout(), args, objects)
}

func renderComponent(
	ctx context.Context, reader *component.Reader, found component.Component, confined render.Confined,
	kubernetes render.Capabilities,
) ([]*unstructured.Unstructured, error) {
	selection, err := bundle.Select(found.Descriptor)
	if err != nil {
		return nil, err
	}
	in := render.Input{
		Packed: selection.Type, Release: bundle.ModuleOf(found.Descriptor.Name), Namespace: modulerole.AgentNamespace,
		Kubernetes: kubernetes,
	}
	for into, resource := range map[*[]byte]*ocm.Resource{
		&in.Content: &selection.Install,
		&in.Values:  selection.Values,
	} {
		if resource == nil {
			continue
		}
		if *into, err = reader.Bytes(ctx, found, *resource); err != nil {
			return nil, err
		}
	}
	refs, err := assemble.Files{Values: in.Values}.ValueRefs()
	if err != nil {
		return nil, err
	}
	in.Substitute = bundle.SampleValues(refs)
	return confined.Render(ctx, in)
}

func writeRole(out io.Writer, modules []string, objects []runtime.Object) error {
	cli.Printf(out, "# Rights that an agent needs to install, upgrade and remove these modules:\n")
	for _, module := range modules {
		cli.Printf(out, "# %s\n", module)
	}
	for _, o := range objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}
