// Package sample creates modules for the demo and for scenarios: OCM components with plain manifests, and their
// catalog entries.
package sample

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"oras.land/oras-go/v2"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// Namespace is the namespace of the control plane's catalog.
const Namespace = "kcp-system"

// Version is one version of a module.
type Version struct {
	Module  string
	Version string
	// Manifest contains the module's objects as YAML documents.
	Manifest string
	// DefaultCR is the module's default CR. It can be empty.
	DefaultCR string
	// UsesValues lists the runtime values that the module uses, separated by commas.
	UsesValues string
	// Manager is the Deployment in kyma-system that decides whether the module is ready. It can be empty.
	Manager string
	// RequiresDowntime is true if an upgrade to this version must wait for a maintenance window.
	RequiresDowntime bool
	// Resources contains the resources of the component. The default is one raw-manifest with the Manifest.
	Resources []Resource
	// Context is the host and path of the component's repository context, which lifecycle-manager requires.
	Context string
	// References contains the components that this component refers to.
	References []Version
	// Signed contains the signers that sign the component.
	Signed []Signer
}

// Resource is one resource of a component: embedded content or an image reference.
type Resource struct {
	Name, Type, MediaType string
	Content               []byte
	// Image is an image reference. Content is then empty.
	Image string
	// ImageDigest is the image digest that the component's signatures cover. It can be empty.
	ImageDigest digest.Digest
}

// Component returns the name of the module's OCM component.
func (v Version) Component() string { return "kyma-pull.dev/module/" + v.Module }

func (v Version) resources() []Resource {
	if v.Resources != nil {
		return v.Resources
	}
	resources := []Resource{{
		Name: "raw-manifest", Type: "directoryTree", MediaType: mediaTypeTar,
		Content: Tar(v.Module+".yaml", v.Manifest),
	}}
	if v.DefaultCR != "" && len(v.Signed) > 0 {
		resources = append(resources, Resource{
			Name: "default-cr", Type: "directoryTree", MediaType: mediaTypeTar,
			Content: Tar("default-cr.yaml", v.DefaultCR),
		})
	}
	return resources
}

// WithResource returns the version with an additional resource.
func (v Version) WithResource(r Resource) Version {
	v.Resources = append(slices.Clone(v.resources()), r)
	return v
}

// ContentDigest returns the digest of the module's content.
func (v Version) ContentDigest() digest.Digest { return digest.FromBytes(v.resources()[0].Content) }

// Template returns the version's ModuleTemplate.
func (v Version) Template() *v1beta2.ModuleTemplate {
	template := &v1beta2.ModuleTemplate{
		TypeMeta: metav1.TypeMeta{APIVersion: v1beta2.GroupVersion.String(), Kind: "ModuleTemplate"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: Namespace, Name: v.Module + "-" + v.Version,
			Labels: map[string]string{v1beta2.LabelModuleName: v.Module},
		},
		Spec: v1beta2.ModuleTemplateSpec{
			ModuleName: v.Module, Version: v.Version, Descriptor: runtime.RawExtension{Raw: []byte(`{}`)},
			RequiresDowntime: v.RequiresDowntime,
		},
	}
	if v.UsesValues != "" {
		template.Annotations = map[string]string{v1beta2.AnnotationUsesValues: v.UsesValues}
	}
	if v.Manager != "" {
		template.Spec.Manager = &v1beta2.Manager{
			GroupVersionKind: metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
			Namespace:        v1beta2.RuntimeNamespace, Name: v.Manager,
		}
	}
	if v.DefaultCR != "" {
		template.Spec.Data = &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(v.DefaultCR), &template.Spec.Data.Object); err != nil {
			panic(fmt.Sprintf("sample %s: default CR: %v", v.Module, err)) // the YAML is part of this repository
		}
	}
	return template
}

// Release returns the ModuleReleaseMeta of a module with a version for each channel.
func Release(module, component string, channels ...v1beta2.ChannelVersion) *v1beta2.ModuleReleaseMeta {
	return &v1beta2.ModuleReleaseMeta{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta2.GroupVersion.String(), Kind: "ModuleReleaseMeta"},
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: module},
		Spec:       v1beta2.ModuleReleaseMetaSpec{ModuleName: module, OcmComponentName: component, Channels: channels},
	}
}

// Channel returns an entry for spec.channels of a ModuleReleaseMeta.
func Channel(channel, version string) v1beta2.ChannelVersion {
	return v1beta2.ChannelVersion{Channel: channel, Version: version}
}

const (
	mediaTypeConfig     = "application/vnd.ocm.software.component.config.v1+json"
	mediaTypeDescriptor = "application/vnd.ocm.software.component-descriptor.v2+yaml+tar"
	mediaTypeTar        = "application/x-tar"
)

// Push pushes the version as an OCM component to a registry path, in the format of Kyma's modulectl.
func (v Version) Push(ctx context.Context, place store.Store) error {
	repository, err := place.Repository(ctx, "component-descriptors/"+v.Component())
	if err != nil {
		return err
	}
	return v.push(ctx, repository)
}

func (v Version) push(ctx context.Context, repository oras.Target) error {
	descriptor, err := v.Descriptor()
	if err != nil {
		return err
	}
	layer := bundle.NewBlob(mediaTypeDescriptor, Tar("component-descriptor.yaml", string(descriptor)))
	pointer, err := json.Marshal(map[string]any{"componentDescriptorLayer": layer.Descriptor})
	if err != nil {
		return err
	}
	config := bundle.NewBlob(mediaTypeConfig, pointer)
	blobs := []bundle.Blob{layer}
	for _, r := range v.resources() {
		if r.Image == "" {
			blobs = append(blobs, bundle.NewBlob(r.MediaType, r.Content))
		}
	}
	image := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: config.Descriptor,
	}
	for _, blob := range blobs {
		image.Layers = append(image.Layers, blob.Descriptor)
	}
	data, err := json.Marshal(image)
	if err != nil {
		return err
	}
	for _, blob := range append(blobs, config) {
		if err := store.PushBlob(ctx, repository, blob); err != nil {
			return fmt.Errorf("push component %s:%s: %w", v.Component(), v.Version, err)
		}
	}
	return store.PushManifest(ctx, repository, bundle.NewBlob(ocispec.MediaTypeImageManifest, data), v.Version)
}
