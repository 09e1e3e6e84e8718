package command

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/cli"
)

// settingsFlags tune the agents of all runtimes through their bundles.
type settingsFlags struct {
	poll, report        time.Duration
	mirrors, imagePaths []string
	autonomy, image     string
	pullSecret          string
	labels, kymaLabels  []string
}

func (f *settingsFlags) add(flags *pflag.FlagSet) {
	flags.DurationVar(&f.poll, "agent-poll-interval", 0, "how often agents look for a new bundle; 0: the agent's own setting")
	flags.DurationVar(&f.report, "agent-report-interval", 0, "how often agents report although nothing changed; 0: the agent's own setting")
	flags.StringVar(&f.autonomy, "agent-autonomy", "", "Catalog lets runtimes install what their Kymas ask for from the offers of their last bundle, before the control plane answers")
	flags.StringVar(&f.image, "agent-image", "", "IMAGE@DIGEST that agents run; an agent rolls back by itself when the image does not work")
	flags.StringSliceVar(&f.kymaLabels, "kyma-labels", nil, "labels that the Kymas of runtimes get from the Kymas here, such as kyma-project.io/global-account-id, separated by commas; runtimes with different values share no documents")
	flags.StringArrayVar(&f.mirrors, "mirror", nil, "FROM=TO: where runtimes read content and images of the registry HOST or HOST/PATH from; may be repeated")
	flags.StringVar(&f.pullSecret, "image-pull-secret", "", "[NAMESPACE/]NAME of a Secret by which the pods of modules pull their images; run brings it into all runtimes, from --secrets-namespace by default")
	flags.StringArrayVar(&f.labels, "runtime-namespace-label", nil, "KEY=VALUE: a label of namespace kyma-system in all runtimes, such as istio-injection=enabled; may be repeated. Keys: "+strings.Join(bundle.NamespaceLabelKeys, ", "))
	flags.StringArrayVar(&f.imagePaths, "image-path", nil, "KIND.GROUP=FIELD: a field of custom resources that holds images, such as Keda.operator.kyma-project.io=spec.images.*; may be repeated")
}

func (f *settingsFlags) settings() (bundle.Settings, error) {
	settings := bundle.Settings{PollInterval: metav1.Duration{Duration: f.poll}, ReportInterval: metav1.Duration{Duration: f.report}, Autonomy: f.autonomy, Agent: f.image}
	settings.ImagePullSecret = f.pullSecret[strings.LastIndex(f.pullSecret, "/")+1:]
	if namespace, name, named := strings.Cut(f.pullSecret, "/"); named && (namespace == "" || name == "" || strings.Contains(name, "/")) {
		return settings, cli.Usage(fmt.Errorf("--image-pull-secret %q: want [NAMESPACE/]NAME", f.pullSecret))
	}
	var err error
	if settings.Mirrors, err = bundle.ParseMirrors(f.mirrors); err != nil {
		return settings, cli.Usage(err)
	}
	for _, text := range f.labels {
		key, value, ok := strings.Cut(text, "=")
		if _, twice := settings.NamespaceLabels[key]; !ok || twice {
			return settings, cli.Usage(fmt.Errorf("--runtime-namespace-label %q: want KEY=VALUE, each key once", text))
		}
		if settings.NamespaceLabels == nil {
			settings.NamespaceLabels = map[string]string{}
		}
		settings.NamespaceLabels[key] = value
	}
	for _, text := range f.imagePaths {
		path, err := imagePath(text)
		if err != nil {
			return settings, cli.Usage(fmt.Errorf("--image-path %q: %w", text, err))
		}
		settings.ImagePaths = append(settings.ImagePaths, path)
	}
	if err := settings.Check(); err != nil {
		return settings, cli.Usage(err)
	}
	return settings, nil
}

// maxKymaLabels is more than anybody shows.
const maxKymaLabels = 32

// carried returns the labels that Kymas of runtimes get because the operator says so.
func (f *settingsFlags) carried() ([]string, error) {
	if n := len(f.kymaLabels); n > maxKymaLabels {
		return nil, cli.Usage(fmt.Errorf("--kyma-labels: %d labels, at most %d", n, maxKymaLabels))
	}
	for _, key := range f.kymaLabels {
		switch key {
		case v1beta2.LabelManagedBy, v1beta2.LabelWatchedBy, v1beta2.LabelSkipReconciliation, v1beta2.LabelSync:
			return nil, cli.Usage(fmt.Errorf("--kyma-labels: %s has a meaning of its own in a runtime: leave it out", key))
		}
		if wrong := validation.IsQualifiedName(key); len(wrong) > 0 {
			return nil, cli.Usage(fmt.Errorf("--kyma-labels: %q is no name of a label: %s", key, wrong[0]))
		}
	}
	return f.kymaLabels, nil
}

func imagePath(text string) (bundle.ImagePath, error) {
	of, field, ok := strings.Cut(text, "=")
	kind, group, _ := strings.Cut(of, ".")
	if !ok || kind == "" || field == "" {
		return bundle.ImagePath{}, errors.New("want KIND.GROUP=FIELD, such as Keda.operator.kyma-project.io=spec.image")
	}
	return bundle.ImagePath{Group: group, Kind: kind, Field: field}, nil
}

// pullSecretIn returns where the Secret is that modules' images are pulled with, in a namespace by default; nothing
// without one.
func (f *settingsFlags) pullSecretIn(namespace string) (types.NamespacedName, error) {
	if f.pullSecret == "" {
		return types.NamespacedName{}, nil
	}
	if in, name, named := strings.Cut(f.pullSecret, "/"); named {
		return types.NamespacedName{Namespace: in, Name: name}, nil
	}
	if namespace == "" {
		return types.NamespacedName{}, cli.Usage(fmt.Errorf("--image-pull-secret %q: want NAMESPACE/NAME without --secrets-namespace", f.pullSecret))
	}
	return types.NamespacedName{Namespace: namespace, Name: f.pullSecret}, nil
}

// nameOnly refuses a namespace of the image pull Secret, for a command that reads no Secrets.
func (f *settingsFlags) nameOnly() error {
	if strings.Contains(f.pullSecret, "/") {
		return cli.Usage(fmt.Errorf("--image-pull-secret %q: want NAME: Secrets are not read here, bring it into namespace kyma-system of the runtimes yourself", f.pullSecret))
	}
	return nil
}
