package command

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/cli"
)

// settingsFlags tune the agents of all runtimes through their bundles.
type settingsFlags struct {
	poll, report        time.Duration
	mirrors, imagePaths []string
	autonomy, image     string
}

func (f *settingsFlags) add(flags *pflag.FlagSet) {
	flags.DurationVar(&f.poll, "agent-poll-interval", 0, "how often agents look for a new bundle; 0: the agent's own setting")
	flags.DurationVar(&f.report, "agent-report-interval", 0, "how often agents report although nothing changed; 0: the agent's own setting")
	flags.StringVar(&f.autonomy, "agent-autonomy", "", "Catalog lets runtimes install what their Kymas ask for from the offers of their last bundle, before the control plane answers")
	flags.StringVar(&f.image, "agent-image", "", "IMAGE@DIGEST that agents run; an agent rolls back by itself when the image does not work")
	flags.StringArrayVar(&f.mirrors, "mirror", nil, "FROM=TO: where runtimes read content and images of the registry HOST or HOST/PATH from; may be repeated")
	flags.StringArrayVar(&f.imagePaths, "image-path", nil, "KIND.GROUP=FIELD: a field of custom resources that holds images, such as Keda.operator.kyma-project.io=spec.images.*; may be repeated")
}

func (f *settingsFlags) settings() (bundle.Settings, error) {
	settings := bundle.Settings{PollInterval: metav1.Duration{Duration: f.poll}, ReportInterval: metav1.Duration{Duration: f.report}, Autonomy: f.autonomy, Agent: f.image}
	var err error
	if settings.Mirrors, err = bundle.ParseMirrors(f.mirrors); err != nil {
		return settings, cli.Usage(err)
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

func imagePath(text string) (bundle.ImagePath, error) {
	of, field, ok := strings.Cut(text, "=")
	kind, group, _ := strings.Cut(of, ".")
	if !ok || kind == "" || field == "" {
		return bundle.ImagePath{}, errors.New("want KIND.GROUP=FIELD, such as Keda.operator.kyma-project.io=spec.image")
	}
	return bundle.ImagePath{Group: group, Kind: kind, Field: field}, nil
}
