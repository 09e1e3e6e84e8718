package landscape

import (
	"embed"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

//go:embed recorded/*.yaml
var recordings embed.FS

// Recorded returns the objects that a step of the recording created or changed in a cluster (kcp or skr). The keys
// are KIND/NAMESPACE/NAME.
func Recorded(step, cluster string) (map[string]*unstructured.Unstructured, error) {
	text, err := recordings.ReadFile("recorded/" + step + "." + cluster + ".yaml")
	if err != nil {
		return nil, err
	}
	all, err := decode(string(text))
	if err != nil {
		return nil, err
	}
	objects := map[string]*unstructured.Unstructured{}
	for _, o := range all {
		if _, removed := o.Object["removed"]; !removed {
			objects[o.GetKind()+"/"+o.GetNamespace()+"/"+o.GetName()] = o
		}
	}
	return objects, nil
}

// recorded decodes an object in kcp-system from the installation step.
func recorded(cluster, kind, name string, into any) error {
	all, err := Recorded("1-installed", cluster)
	if err != nil {
		return err
	}
	key := kind + "/" + sample.Namespace + "/" + name
	if all[key] == nil {
		return fmt.Errorf("the recording does not contain %s", key)
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(all[key].Object, into)
}

// RecordedKyma is the name of the recording's Kyma.
const RecordedKyma = "one"

// Prioritized returns scaler 1.7.0 with a Deployment that uses the module's own PriorityClass, as in Kyma's keda
// module.
func Prioritized() sample.Version {
	v := sample.Scaler("1.7.0")
	v.Manifest = strings.Replace(v.Manifest, "      serviceAccountName: scaler-manager\n",
		"      serviceAccountName: scaler-manager\n      priorityClassName: scaler-priority\n", 1)
	return v
}

// Guard returns a version of the sample module named guard, which is mandatory.
func Guard(version string) sample.Version {
	return sample.Version{Module: "guard", Version: version, Manifest: fmt.Sprintf(`
apiVersion: v1
kind: ConfigMap
metadata: {name: guard-settings, namespace: kyma-system}
data: {version: "%s"}
`, version)}
}

// RecordedVersions returns the module versions in the recording's catalog.
func RecordedVersions() []sample.Version {
	return []sample.Version{Prioritized(), sample.Scaler("1.8.0"), sample.Mailer("1.1.0"), Guard("1.0.0")}
}

// RecordedReleases returns the recording's initial ModuleReleaseMetas.
func RecordedReleases() []*v1beta2.ModuleReleaseMeta {
	scaler, mailer := sample.Scaler("").Component(), sample.Mailer("").Component()
	guard := sample.Release("guard", Guard("").Component())
	guard.Spec.Channels, guard.Spec.Mandatory = nil, &v1beta2.Mandatory{Version: "1.0.0"}
	return []*v1beta2.ModuleReleaseMeta{
		sample.Release("scaler", scaler, sample.Channel("regular", "1.7.0")),
		sample.Release("mailer", mailer, sample.Channel("regular", "1.1.0")),
		guard,
	}
}

// UserScaler returns a user's custom resource of kind Scaler.
func UserScaler() *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("sample.kyma-pull.dev/v1")
	o.SetKind("Scaler")
	o.SetNamespace("default")
	o.SetName("users")
	return o
}
