package component

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/internal/render"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/flagset"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/archive"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/assemble"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/schema/crdschema"
)

type createFlags struct {
	capabilityFlags
	from, to, provider, key, signature string
	defaultCR, template, format        string
	images, values, sets               []string
	registry                           cli.Registry
}

func newComponentCreate() *cobra.Command {
	f := &createFlags{}
	cmd := &cobra.Command{
		Use: "create NAME:VERSION", Short: "create a component version from a folder or chart",
		Args: cli.Exactly(1, "NAME:VERSION"),
		Long: "create packages a Helm chart, a kustomization or a folder of manifests as an OCM component version, " +
			"and writes it to a registry or archive.\n" +
			"Images of pods in plain manifests become resources of the component; list the images of charts, " +
			"kustomizations and custom resources with --image.\n" +
			"Pods and Jobs with test hooks in a chart become checks of the module.\n" +
			"create renders the content as agents do, and fails if agents would refuse it. The same files always " +
			"create the same component,\n" +
			"so the command can be repeated. It refuses to replace an existing version that has different content.",
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", "",
		"chart (folder or .tgz file), folder with a kustomization, or manifests (folder or file)")
	flags.StringVar(&f.to, "to", "",
		"destination: registry prefix HOST/PATH, or ctf:PATH for a common transport archive, which is a folder or a "+
			".tar, .tgz or .tar.gz file")
	flags.StringVar(&f.provider, "provider", "", "provider of the component; default: the domain in NAME")
	flags.StringArrayVar(&f.images, "image", nil,
		"image that the module uses, as NAME:TAG or NAME:TAG@DIGEST; can be repeated")
	flags.StringArrayVar(&f.values, "values", nil,
		"YAML file with chart values to include in the component; can be repeated, later files take precedence")
	flags.StringArrayVar(&f.sets, "set", nil, "chart value as KEY=VALUE, as in helm --set; can be repeated")
	f.addCapabilities(flags)
	flags.StringVar(&f.key, "sign", "",
		"PEM file with the RSA private key to sign the component; missing image digests are read from the registries")
	flags.StringVar(&f.signature, "signature-name", "release", "name of the signature")
	flags.StringVar(&f.template, "module-template", "",
		"also write the version's ModuleTemplate for the control plane to this file")
	flags.StringVar(&f.defaultCR, "default-cr", "",
		"file with the module's default CR, for the component and the ModuleTemplate; requires --module-template")
	cli.OutputFlag(flags, &f.format)
	f.registry.AddFlags(flags)
	return cmd
}

// Created is the output of `component create`.
type Created struct {
	Component string   `json:"component"`
	Version   string   `json:"version"`
	Where     string   `json:"where"`
	Digest    string   `json:"digest"`
	Type      string   `json:"type"`
	SizeBytes int      `json:"sizeBytes"`
	Images    []string `json:"images"`
	// Unpinned lists the images without a digest.
	Unpinned []string `json:"unpinned,omitempty"`
	Signed   string   `json:"signed,omitempty"`
	// Unlisted is true if agents render the module, but its component does not list images.
	Unlisted bool `json:"unlistedImages,omitempty"`
	// Ignored lists the unknown fields of the module's objects, which agents ignore.
	Ignored []string `json:"ignoredFields,omitempty"`
	// Checks lists the checks that were created from a chart's test hooks. OmittedTests is the reason why the test
	// hooks cannot become checks.
	Checks       []string `json:"checks,omitempty"`
	OmittedTests string   `json:"omittedTests,omitempty"`
}

func (f *createFlags) run(cmd *cobra.Command, argument string) error {
	name, version, ok := strings.Cut(argument, ":")
	if !ok {
		return cli.Usage(fmt.Errorf("component %q: must be NAME:VERSION, such as example.org/module/mailer:1.0.0",
			argument))
	}
	if err := cli.RequireFlags(cli.Required{Flag: "--from", Given: f.from != ""},
		cli.Required{Flag: "--to", Given: f.to != ""}); err != nil {
		return err
	}
	if f.defaultCR != "" && f.template == "" {
		return cli.Usage(
			errors.New("--default-cr requires --module-template FILE, because the ModuleTemplate also contains the CR"))
	}
	files, err := f.read()
	if err != nil {
		return err
	}
	template, err := f.moduleTemplate(name, version, files)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	registries, err := f.registry.Registries(store.Access{})
	if err != nil {
		return err
	}
	c, row, err := f.assemble(ctx, name, version, files, registries)
	if err != nil {
		return err
	}
	if row.Digest, row.Where, err = f.pushComponent(ctx, c, registries); err != nil {
		return err
	}
	if template != nil {
		if err := cli.WriteFile(f.template, template); err != nil {
			return fmt.Errorf("--module-template: %w", err)
		}
	}
	return cli.Print(cmd.OutOrStdout(), f.format, row, row.draw)
}

func (f *createFlags) read() (assemble.Files, error) {
	files, err := assemble.Read(f.from)
	if err != nil {
		return files, fmt.Errorf("--from: %w", err)
	}
	if f.defaultCR != "" {
		if files.DefaultCR, err = os.ReadFile(f.defaultCR); err != nil {
			return files, cli.Usage(fmt.Errorf("--default-cr: %w", err))
		}
		if _, err := render.DefaultCR(files.DefaultCR); err != nil {
			return files, cli.Usage(fmt.Errorf("--default-cr %s: %w", f.defaultCR, err))
		}
	}
	if err := files.SetValues(f.values, f.sets); err != nil {
		return files, cli.Usage(fmt.Errorf("--values or --set: %w", err))
	}
	files.Kubernetes = f.capabilities()
	return files, nil
}

func (f *createFlags) assemble(
	ctx context.Context, name, version string, files assemble.Files, registries *store.Registries,
) (*assemble.Component, Created, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, Created{}, err
	}
	checked, err := files.Check(ctx, bundle.ModuleOf(name), render.Confined{Command: []string{self, RenderCommand}}.Render)
	if err != nil {
		return nil, Created{}, f.refusal(files, err)
	}
	files.Checks = checked.Tests.File
	images := assemble.PreferPinned(append(checked.Images, f.images...))
	var digests map[string]digest.Digest
	if f.key != "" {
		if digests, err = resolveDigests(ctx, images, registries); err != nil {
			return nil, Created{}, err
		}
	}
	domain, _, _ := strings.Cut(name, "/")
	c, err := assemble.New(name, version, cmp.Or(f.provider, domain), files, images, digests)
	if err != nil {
		return nil, Created{}, cli.Usage(err)
	}
	if err := c.CheckImages(checked.Objects); err != nil {
		return nil, Created{}, f.refusal(files, err)
	}
	row := Created{
		Component: name, Version: version, Type: files.Type, SizeBytes: len(files.Packed),
		Images: append([]string{}, images...), Unpinned: c.UnpinnedImages(),
		Unlisted: files.Rendered && len(images) == 0, Ignored: checked.Ignored,
		Checks: checked.Tests.Names, OmittedTests: checked.Tests.Omitted,
	}
	if f.key == "" {
		return c, row, nil
	}
	data, err := os.ReadFile(f.key)
	if err != nil {
		return nil, row, cli.Usage(fmt.Errorf("--sign: %w", err))
	}
	key, err := assemble.ReadKey(data)
	if err != nil {
		return nil, row, cli.Usage(fmt.Errorf("--sign %s: %w", f.key, err))
	}
	row.Signed = f.signature
	return c, row, c.Sign(f.signature, key, checked.Objects)
}

// refusal returns the error for content that agents or API servers would refuse. For a chart, the error includes the
// assumed capabilities, because agents in other clusters might accept the content.
func (f *createFlags) refusal(files assemble.Files, err error) error {
	if errors.Is(err, render.ErrNotRun) {
		return fmt.Errorf("--from %s: the content was not checked: %w", f.from, err)
	}
	if errors.Is(err, render.ErrWrongType) {
		return fmt.Errorf("--from %s: %w", f.from, err)
	}
	if !files.IsChart() {
		return fmt.Errorf("--from %s: every agent would refuse the content: %w", f.from, err)
	}
	apis := "Kubernetes' own APIs"
	if len(f.apiVersions) > 0 {
		apis += " and " + strings.Join(f.apiVersions, ", ")
	}
	return fmt.Errorf("--from %s: an agent with these capabilities (%s, %s) would refuse the content: %w (if your "+
		"runtimes differ, set --kube-version and --api-versions)", f.from, files.Kubernetes.Version, apis, err)
}

func resolveDigests(
	ctx context.Context, images []string, registries *store.Registries,
) (map[string]digest.Digest, error) {
	found := map[string]digest.Digest{}
	for _, image := range images {
		named, err := reference.ParseNormalizedNamed(image)
		if err != nil {
			return nil, fmt.Errorf("image %q: %w", image, err)
		}
		if _, pinned := named.(reference.Digested); pinned {
			continue
		}
		repository, err := registries.Repository(named.Name())
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", image, err)
		}
		tag := "latest"
		if tagged, ok := named.(reference.Tagged); ok {
			tag = tagged.Tag()
		}
		if found[image], err = store.Head(ctx, repository, tag); err != nil {
			return nil,
				fmt.Errorf(
					"image %s: read the digest for the signature from the registry (or write the image as "+
						"NAME:TAG@sha256:DIGEST): %w", image, err)
		}
	}
	return found, nil
}

func (f *createFlags) pushComponent(
	ctx context.Context, c *assemble.Component, registries *store.Registries,
) (pushed, where string, err error) {
	if path, ok := strings.CutPrefix(f.to, flagset.ArchiveScheme); ok {
		writer, err := archive.Create(path, archive.FormatOf(path))
		if err != nil {
			return "", "", err
		}
		d, err := c.Push(ctx, writer.Target(c.Repository()))
		if err != nil {
			return "", "", errors.Join(err, writer.Discard())
		}
		return d.String(), path, writer.Close()
	}
	place, err := store.Open(f.to, registries)
	if err != nil {
		return "", "", cli.Usage(fmt.Errorf("--to: %w", err))
	}
	repository, err := place.Repository(ctx, c.Repository())
	if err != nil {
		return "", "", err
	}
	d, err := c.Push(ctx, repository)
	return d.String(), place.Name(c.Repository()), err
}

// moduleTemplate returns the version's ModuleTemplate, or nil without --module-template. It also checks the module
// name.
func (f *createFlags) moduleTemplate(name, version string, files assemble.Files) ([]byte, error) {
	refs, err := files.ValueRefs()
	if err != nil {
		return nil, cli.Usage(err)
	}
	module := bundle.ModuleOf(name)
	template := v1beta2.ModuleTemplate{
		TypeMeta: metav1.TypeMeta{APIVersion: v1beta2.GroupVersion.String(), Kind: "ModuleTemplate"},
		ObjectMeta: metav1.ObjectMeta{
			Name: module + "-" + strings.ReplaceAll(version, "+", "-"), Namespace: "kcp-system",
			Labels: map[string]string{v1beta2.LabelModuleName: module},
		},
		Spec: v1beta2.ModuleTemplateSpec{
			ModuleName: module, Version: version, Descriptor: runtime.RawExtension{Raw: []byte(`{}`)},
		},
	}
	if len(refs) > 0 {
		template.Annotations = map[string]string{v1beta2.AnnotationUsesValues: bundle.FormatUsedValues(refs)}
	}
	if f.defaultCR != "" {
		template.Spec.Data = &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(files.DefaultCR, &template.Spec.Data.Object); err != nil {
			return nil, cli.Usage(fmt.Errorf("--default-cr %s: %w", f.defaultCR, err))
		}
		if template.Spec.Data.GetKind() == "" || template.Spec.Data.GetName() == "" {
			return nil,
				cli.Usage(fmt.Errorf("--default-cr %s: apiVersion, kind and metadata.name are required", f.defaultCR))
		}
	}
	text, err := yaml.Marshal(template)
	if err != nil {
		return nil, err
	}
	if err := f.checkTemplate(name, text); err != nil {
		return nil, cli.Usage(err)
	}
	if f.template == "" {
		return nil, nil
	}
	return text, nil
}

// checkTemplate returns the errors that the API server would return for a ModuleTemplate. Without --module-template, it
// checks only the module name.
func (f *createFlags) checkTemplate(component string, text []byte) error {
	schema, err := crdschema.SchemaOf("ModuleTemplate")
	if err != nil {
		return err
	}
	var object map[string]any
	if err := yaml.Unmarshal(text, &object); err != nil {
		return err
	}
	var wrong []error
	for _, p := range append(crdschema.ValidateMeta(object), schema.Validate(object)...) {
		switch {
		case p.Field == "spec.moduleName":
			return fmt.Errorf(
				"component %s: the last part of its name, %q, is not a valid module name: "+
					"use words of at least three lowercase letters, separated by dashes", component,
				bundle.ModuleOf(component))
		case f.template != "":
			wrong = append(wrong, fmt.Errorf("--module-template: %w", p))
		}
	}
	return errors.Join(wrong...)
}

func (c Created) draw(out io.Writer) {
	cli.Printf(out, "created %s:%s in %s\n", c.Component, c.Version, c.Where)
	cli.Printf(out, "  digest   %s\n", c.Digest)
	cli.Printf(out, "  content  %s, %s\n", c.Type, terminal.SizeText(int64(c.SizeBytes)))
	for _, image := range c.Images {
		cli.Printf(out, "  image    %s\n", image)
	}
	if c.Unlisted {
		fmt.Fprintln(out,
			"  images   none: the module is rendered in the runtimes; list its images with --image to localize, "+
				"mirror and export them")
	}
	for _, image := range c.Unpinned {
		cli.Printf(out, "  unpinned %s: use NAME:TAG@sha256:DIGEST to include the digest in the component\n",
			image)
	}
	for _, check := range c.Checks {
		cli.Printf(out, "  check    %s: from a test hook of the chart\n", check)
	}
	if c.OmittedTests != "" {
		cli.Printf(out, "  omitted  test hooks of the chart: %s\n", c.OmittedTests)
	}
	for _, field := range c.Ignored {
		cli.Printf(out, "  ignored  %s: correct or remove the field\n", field)
	}
	cli.Printf(out, "  signed   %s\n", cmp.Or(c.Signed, "no (use --sign KEY)"))
}
