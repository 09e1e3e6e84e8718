package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/provenance"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/pull"
)

type provenanceFlags struct {
	cluster                  cli.Cluster
	namespace, trust, format string
}

func newProvenance() *cobra.Command {
	f := &provenanceFlags{}
	cmd := &cobra.Command{
		Use: "provenance KIND/NAME", Short: "trace an object to its module, bundle and signing key",
		Long: "provenance reads the object's Manifest, the last accepted bundle and its signatures from the runtime, " +
			"and verifies the\n" +
			"bundle again with the agent's root of trust. It is read-only, and reads no private key or credential.\n\n" +
			"KIND is a kind, a resource or a short name, such as configmap, deployments.apps or deploy. Add the " +
			"group if the name is ambiguous.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usage(fmt.Errorf("expected one object as KIND/NAME, got %d arguments", len(args)))
			}
			if strings.Count(args[0], "/") != 1 || strings.HasPrefix(args[0], "/") ||
				strings.HasSuffix(args[0], "/") {
				return cli.Usage(fmt.Errorf("object %q: must be KIND/NAME, such as deployment/mailer", args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			chain, err := f.trace(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return cli.Print(cmd.OutOrStdout(), f.format, chain, func(out io.Writer) { drawChain(out, chain) })
		},
	}
	flags := cmd.Flags()
	f.cluster.AddFlags(flags, "the runtime")
	f.cluster.AddTimeoutFlag(flags)
	flags.StringVarP(&f.namespace, "namespace", "n", metav1.NamespaceDefault,
		"namespace of the object; ignored for cluster-scoped kinds")
	flags.StringVar(&f.trust, "trust", "",
		"file with a root of trust that must list the bundle's key; default: the root that the agent verified")
	cli.OutputFlag(flags, &f.format)
	return cmd
}

func (f *provenanceFlags) trace(ctx context.Context, reference string) (provenance.Chain, error) {
	config, err := f.cluster.Config()
	if err != nil {
		return provenance.Chain{}, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1beta2.AddToScheme(scheme)); err != nil {
		return provenance.Chain{}, err
	}
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return provenance.Chain{}, fmt.Errorf("connect to the runtime: %w", err)
	}
	kind, name, _ := strings.Cut(reference, "/")
	object, err := readObject(ctx, config, api, kind, f.namespace, name)
	if err != nil {
		return provenance.Chain{}, err
	}
	var manifests v1beta2.ManifestList
	if err := api.List(ctx, &manifests, client.InNamespace(v1beta2.RuntimeNamespace)); err != nil {
		return provenance.Chain{}, fmt.Errorf("list Manifests: %w", err)
	}
	inForce, err := readAcceptedBundle(ctx, api, f.trust)
	if err != nil {
		return provenance.Chain{}, err
	}
	return provenance.Trace(object, manifests.Items, *inForce)
}

// readObject reads only the metadata of an object, because its content can be confidential.
func readObject(
	ctx context.Context, config *rest.Config, api client.Client, kind, namespace, name string,
) (provenance.Object, error) {
	mapping, err := resolveKind(config, kind)
	if err != nil {
		return provenance.Object{}, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		namespace = ""
	}
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(mapping.GroupVersionKind)
	if err := api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, found); err != nil {
		if apierrors.IsNotFound(err) && namespace != "" {
			err = fmt.Errorf("%w: set --namespace to the namespace of the object", err)
		}
		return provenance.Object{},
			fmt.Errorf("read %s %s: %w", mapping.GroupVersionKind.Kind, strings.TrimPrefix(namespace+"/"+name, "/"),
				err)
	}
	return provenance.Object{
		Group: mapping.GroupVersionKind.Group, Kind: mapping.GroupVersionKind.Kind, Namespace: namespace, Name: name,
		OwnedBy: found.Annotations[v1beta2.AnnotationOwnedBy],
	}, nil
}

// resolveKind returns the REST mapping for a kind, given by singular, plural or short name. The group is optional.
func resolveKind(config *rest.Config, kind string) (*meta.RESTMapping, error) {
	api, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	groups, err := restmapper.GetAPIGroupResources(api)
	if err != nil {
		return nil, fmt.Errorf("list the runtime's API resources: %w", err)
	}
	mapper := restmapper.NewShortcutExpander(restmapper.NewDiscoveryRESTMapper(groups), api, nil)
	resource := schema.ParseGroupResource(strings.ToLower(kind))
	gvk, err := mapper.KindFor(resource.WithVersion(""))
	if err != nil {
		return nil, fmt.Errorf("kind %q: %w", kind, err)
	}
	return mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
}

// readAcceptedBundle reads the last accepted bundle and verifies it again. It reads only Secrets without confidential
// data.
func readAcceptedBundle(ctx context.Context, api client.Client, trustFile string) (*bundle.Bundle, error) {
	runtimeID, key, err := readPublicIdentity(ctx, api)
	if err != nil {
		return nil, err
	}
	inForce, err := pull.ReadBundle(ctx, pull.SavedState{
		Client: api, Namespace: v1beta2.RuntimeNamespace, Runtime: runtimeID, Key: key,
	})
	if err != nil {
		return nil, err
	}
	if inForce == nil {
		return nil, fmt.Errorf("the agent of runtime %s has not accepted a bundle yet", runtimeID)
	}
	if trustFile == "" {
		return inForce, nil
	}
	root, err := readRoot(trustFile)
	if err != nil {
		return nil, err
	}
	if !root.TrustsKey(inForce.KeyThumbprint) {
		return nil, refusal.New(refusal.UnknownKey, "version %d of the root of trust in %s does not list key %s, which "+
			"signed the bundle", root.Version, trustFile, trust.ShortThumbprint(inForce.KeyThumbprint))
	}
	return inForce, nil
}

func readRoot(file string) (trust.Root, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return trust.Root{}, cli.Usage(fmt.Errorf("--trust: %w", err))
	}
	return trust.ParseRoot(data)
}

func drawChain(out io.Writer, c provenance.Chain) {
	cli.Printf(out, "object     %s\nmanifest   %s, %s\nmodule     %s %s\n", c.Object, c.Manifest, c.State, c.Module,
		c.Version)
	if c.Component != "" {
		cli.Printf(out, "component  %s:%s\n", c.Component, c.Version)
	}
	for _, i := range c.Content {
		cli.Printf(out, "content    %s@%s\n", i.Repository, i.Digest)
	}
	cli.Printf(
		out,
		"bundle     %s\nruntime    %s\nsequence   %d in epoch %d\nissued     %s\nsigned by  %s, under root of trust "+
			"version %d\n",
		c.Bundle.Digest,
		c.Bundle.Runtime,
		c.Bundle.Sequence,
		c.Bundle.Epoch,
		c.Bundle.IssuedAt.Format(time.RFC3339),
		c.Bundle.PublisherKey,
		c.Bundle.RootVersion,
	)
	if c.Bundle.Source != nil {
		cli.Printf(out, "source     %s\n", c.Bundle.Source)
	}
	if c.Pending {
		fmt.Fprintln(out,
			"note       the installation is not complete: the object can still be from an earlier bundle")
	}
	if c.DefaultCR {
		fmt.Fprintln(out,
			"note       created as the module's default CR: users can have changed its content since")
	}
}
