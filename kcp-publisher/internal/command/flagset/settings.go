package flagset

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// SettingsFlags contains the settings that bundles deliver to agents.
type SettingsFlags struct {
	Poll, Report        time.Duration
	mirrors, imagePaths []string
	autonomy, image     string
	pullSecret          string
	labels, kymaLabels  []string
	agentRollbackFrom   []string
	nextLocation        string
	nextCA              string
}

// Add adds the flags. Rarely used flags go to settings, all others to flags.
func (f *SettingsFlags) Add(flags, settings *pflag.FlagSet) {
	flags.DurationVar(&f.Poll, "agent-poll-interval", 0,
		"interval at which agents check for a new bundle; 0 keeps the agent's own setting")
	flags.DurationVar(&f.Report, "agent-report-interval", 0,
		"interval at which agents report if nothing changed; 0 keeps the agent's own setting")
	flags.StringVar(&f.autonomy, "agent-autonomy", "",
		"Catalog: runtimes install requested modules from the offers in their last bundle, without waiting for the "+
			"control plane")
	flags.StringVar(&f.image, "agent-image", "",
		"image of the agents, as IMAGE@DIGEST; an agent rolls back automatically if the image does not work")
	settings.StringSliceVar(&f.agentRollbackFrom, "agent-rollback-from", nil,
		"digests of agent images that agents can replace with an older --agent-image; "+
			"agents never downgrade from other images")
	flags.StringSliceVar(&f.kymaLabels, "kyma-labels", nil,
		"comma-separated labels to copy from Kymas to the Kymas in the runtimes, such as "+
			"kyma-project.io/global-account-id; runtimes with different values do not share documents")
	flags.StringArrayVar(&f.mirrors, "mirror", nil,
		"mirror as FROM=TO: runtimes read content and images of FROM, which is HOST or HOST/PATH, from TO; can be "+
			"repeated")
	flags.StringVar(&f.pullSecret, "image-pull-secret", "",
		"image pull Secret for the pods of modules, as [NAMESPACE/]NAME, by default in --secrets-namespace; the "+
			"run command delivers it to all runtimes")
	settings.StringArrayVar(&f.labels, "runtime-namespace-label", nil,
		"label for namespace kyma-system in all runtimes, as KEY=VALUE, such as istio-injection=enabled; can be "+
			"repeated. Supported keys: "+strings.Join(bundle.NamespaceLabelKeys, ", "))
	flags.StringVar(&f.nextLocation, "next-location", "",
		"registry prefix HOST/PATH that the fleet moves to: agents also look for bundles there, and use the "+
			"location of their newest bundle")
	flags.StringVar(&f.nextCA, "next-registry-ca", "",
		"PEM file with CA certificates that agents trust for registries, in addition to the CA of their installation")
	settings.StringArrayVar(&f.imagePaths, "image-path", nil,
		"field of custom resources that contains images, as KIND.GROUP=FIELD, such as "+
			"Keda.operator.kyma-project.io=spec.images.*; can be repeated")
}

// Settings returns the settings, or a usage error.
func (f *SettingsFlags) Settings() (bundle.Settings, error) {
	settings := bundle.Settings{
		PollInterval: metav1.Duration{Duration: f.Poll}, ReportInterval: metav1.Duration{Duration: f.Report},
		Autonomy: f.autonomy, Agent: f.image,
	}
	settings.ImagePullSecret = f.pullSecret[strings.LastIndex(f.pullSecret, "/")+1:]
	if namespace, name, named := strings.Cut(f.pullSecret, "/"); named &&
		(namespace == "" || name == "" || strings.Contains(name, "/")) {
		return settings, cli.Usage(fmt.Errorf("--image-pull-secret %q: must be [NAMESPACE/]NAME", f.pullSecret))
	}
	var err error
	if settings.Mirrors, err = bundle.ParseMirrors(f.mirrors); err != nil {
		return settings, cli.Usage(err)
	}
	for _, text := range f.labels {
		key, value, ok := strings.Cut(text, "=")
		if _, twice := settings.NamespaceLabels[key]; !ok || twice {
			return settings,
				cli.Usage(fmt.Errorf("runtime-namespace-label %q: must be KEY=VALUE with unique keys", text))
		}
		if settings.NamespaceLabels == nil {
			settings.NamespaceLabels = map[string]string{}
		}
		settings.NamespaceLabels[key] = value
	}
	for _, text := range f.imagePaths {
		path, err := imagePath(text)
		if err != nil {
			return settings, cli.Usage(fmt.Errorf("image-path %q: %w", text, err))
		}
		settings.ImagePaths = append(settings.ImagePaths, path)
	}
	if settings.NextRegistry, err = f.nextRegistry(); err != nil {
		return settings, cli.Usage(err)
	}
	if err := settings.Check(); err != nil {
		return settings, cli.Usage(err)
	}
	return settings, nil
}

// nextRegistry returns the registry that the fleet moves to, or nil if --next-location is not set.
func (f *SettingsFlags) nextRegistry() (*bundle.NextRegistry, error) {
	if f.nextLocation == "" && f.nextCA == "" {
		return nil, nil
	}
	next := &bundle.NextRegistry{Location: strings.TrimSuffix(f.nextLocation, "/")}
	if f.nextCA == "" {
		return next, nil
	}
	file, err := os.Open(f.nextCA)
	if err != nil {
		return nil, fmt.Errorf("--next-registry-ca: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, bundle.MaxCABytes+1))
	if err != nil {
		return nil, fmt.Errorf("--next-registry-ca: %w", err)
	}
	if next.CA = strings.TrimSpace(string(text)); next.CA == "" {
		return nil, fmt.Errorf("--next-registry-ca %s: the file is empty, must contain CA certificates in PEM", f.nextCA)
	}
	return next, nil
}

// Rollbacks returns the digests of the agent images that agents can replace with an older agent image.
func (f *SettingsFlags) Rollbacks() ([]string, error) {
	if n := len(f.agentRollbackFrom); n > plan.MaxAgentRollbacks {
		return nil, cli.Usage(fmt.Errorf("agent-rollback-from: %d images, must be at most %d", n,
			plan.MaxAgentRollbacks))
	}
	var all []string
	for _, image := range f.agentRollbackFrom {
		pin := bundle.ImageDigest(image)
		if err := digest.Digest(pin).Validate(); err != nil {
			return nil, cli.Usage(fmt.Errorf("agent-rollback-from %q: must be a digest sha256:…: %w", image, err))
		}
		all = append(all, pin)
	}
	return all, nil
}

const maxKymaLabels = 32

// CopiedLabels returns the labels to copy from Kymas to the Kymas in the runtimes.
func (f *SettingsFlags) CopiedLabels() ([]string, error) {
	if n := len(f.kymaLabels); n > maxKymaLabels {
		return nil, cli.Usage(fmt.Errorf("--kyma-labels: %d labels, must be at most %d", n, maxKymaLabels))
	}
	for _, key := range f.kymaLabels {
		switch key {
		case v1beta2.LabelManagedBy, v1beta2.LabelWatchedBy, v1beta2.LabelSkipReconciliation, v1beta2.LabelSync:
			return nil, cli.Usage(fmt.Errorf("--kyma-labels: %s is reserved in runtimes: remove it", key))
		}
		if wrong := validation.IsQualifiedName(key); len(wrong) > 0 {
			return nil, cli.Usage(fmt.Errorf("--kyma-labels: %q is not a valid label key: %s", key, wrong[0]))
		}
	}
	return f.kymaLabels, nil
}

func imagePath(text string) (bundle.ImagePath, error) {
	of, field, ok := strings.Cut(text, "=")
	kind, group, _ := strings.Cut(of, ".")
	if !ok || kind == "" || field == "" {
		return bundle.ImagePath{}, errors.New("must be KIND.GROUP=FIELD, such as Keda.operator.kyma-project.io=spec.image")
	}
	return bundle.ImagePath{Group: group, Kind: kind, Field: field}, nil
}

// PullSecretIn returns the namespace and name of the image pull Secret. If the flag contains only a name, the parameter
// namespace applies.
func (f *SettingsFlags) PullSecretIn(namespace string) (types.NamespacedName, error) {
	if f.pullSecret == "" {
		return types.NamespacedName{}, nil
	}
	if in, name, named := strings.Cut(f.pullSecret, "/"); named {
		return types.NamespacedName{Namespace: in, Name: name}, nil
	}
	if namespace == "" {
		return types.NamespacedName{},
			cli.Usage(fmt.Errorf("--image-pull-secret %q has no namespace: use NAMESPACE/NAME, or set "+
				"--secrets-namespace", f.pullSecret))
	}
	return types.NamespacedName{Namespace: namespace, Name: f.pullSecret}, nil
}

// NameOnly returns a usage error if --image-pull-secret contains a namespace. Commands that do not read Secrets call
// it.
func (f *SettingsFlags) NameOnly() error {
	if strings.Contains(f.pullSecret, "/") {
		return cli.Usage(
			fmt.Errorf(
				"--image-pull-secret %q: must be NAME, because this command does not read Secrets; create the Secret in "+
					"namespace kyma-system of the runtimes", f.pullSecret))
	}
	return nil
}

// AddRestrictedFlag adds the flag --restricted-default-modules.
func AddRestrictedFlag(flags *pflag.FlagSet, into *[]string) {
	flags.StringSliceVar(into, "restricted-default-modules", nil,
		"comma-separated modules that are limited to Kymas matching the kymaSelector of their ModuleReleaseMeta; "+
			"without a kymaSelector, no Kyma can use them")
}

// ErrZeroValidity is the error for --validity 0.
var ErrZeroValidity = errors.New("--validity 0s: must be more than 0")

// DefaultValidity is the default validity period of a bundle. Bundles stay valid if the publisher is down over a
// weekend.
const DefaultValidity = 7 * 24 * time.Hour
