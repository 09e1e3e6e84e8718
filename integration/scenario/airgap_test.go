package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/registry"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// airGappedFleet is a fleet with air-gapped runtimes. Each runtime has its own registry or folder. The test copies
// files between the fleet's registry and the runtimes, as operators do. The runtimes do not have the password for the
// fleet's registry.
type airGappedFleet struct {
	*fleet.Fleet
	t   *testing.T
	dir string
}

// newAirGappedFleet starts the fleet. It creates the folder first, so that the cleanup removes the folder after the
// agents have ended.
func newAirGappedFleet(t *testing.T, options fleet.Options) airGappedFleet {
	t.Helper()
	dir := t.TempDir()
	return airGappedFleet{newFleet(t, options), t, dir}
}

func (v airGappedFleet) run(want int, binary string, args ...string) string {
	v.t.Helper()
	return runProgram(v.t, want, binary, args...)
}

func (v airGappedFleet) file(name string) string { return filepath.Join(v.dir, name) }

func (v airGappedFleet) export(name string, args ...string) string {
	v.t.Helper()
	args = append([]string{"export", "--from", v.Location(), "--keys", v.Keys(), "-o", v.file(name)}, args...)
	return v.run(0, v.Binaries().Publisher, append(args, v.RegistryFlags("publisher")...)...)
}

func (v airGappedFleet) imports(want int, to string, paths ...string) string {
	v.t.Helper()
	args := append([]string{"import", "--to", to, "--trust", filepath.Join(v.Keys(), "root.json")}, paths...)
	return v.run(want, v.Binaries().Agent, args...)
}

// report copies the runtime's newest report to the control plane.
func (v airGappedFleet) report(r *fleet.Runtime, location, name string) string {
	v.t.Helper()
	v.run(0, v.Binaries().Agent, "export-report", "--location", location, "--runtime", r.ID, "-o", v.file(name))
	return v.importReport(0, name)
}

func (v airGappedFleet) importReport(want int, name string) string {
	v.t.Helper()
	return v.run(want, v.Binaries().Publisher,
		append([]string{"import-report", v.file(name), "--to", v.Location()}, v.RegistryFlags("publisher")...)...)
}

// published waits until the control plane has published a bundle with these module versions for the runtime, and
// returns the bundle's digest.
func (v airGappedFleet) published(r *fleet.Runtime, versions map[string]string) string {
	v.t.Helper()
	until(v.t, 60*time.Second, fmt.Sprintf("versions %v are published for %s", versions, r.ID), func() (bool, string) {
		record, err := r.Record(v.t.Context())
		if err != nil || record.Status.Runtime == nil || record.Status.Runtime.Published == nil {
			return false, fmt.Sprint(err)
		}
		return fmt.Sprint(record.Status.Runtime.Published.Versions) == fmt.Sprint(versions),
			fmt.Sprint(record.Status.Runtime.Published.Versions)
	})
	untilQuiet(v.t, v.Fleet)
	record, err := r.Record(v.t.Context())
	must(v.t, err)
	return record.Status.Runtime.Published.Digest
}

// runProgram runs a program, checks its exit code, and returns its output.
func runProgram(t *testing.T, want int, binary string, args ...string) string {
	t.Helper()
	output, code := fleet.Run(t.Context(), binary, args...)
	if code != want {
		t.Fatalf("%s %v: exit code %d, want %d\n%s", filepath.Base(binary), args, code, want, output)
	}
	return output
}

// untilOwn waits until the Kyma in the runtime lists these module versions as ready.
func untilOwn(t *testing.T, r *fleet.Runtime, versions map[string]string) {
	t.Helper()
	until(t, 60*time.Second, fmt.Sprintf("%s has installed versions %v", r.ID, versions), func() (bool, string) {
		kyma, err := r.Kyma(t.Context())
		if err != nil {
			return false, err.Error()
		}
		ready := map[string]string{}
		for _, m := range kyma.Status.Modules {
			if m.State == v1beta2.StateReady {
				ready[m.Name] = m.Version
			}
		}
		return fmt.Sprint(ready) == fmt.Sprint(versions),
			fmt.Sprintf("%v of %+v, %+v", ready, kyma.Status.Modules, kyma.Status.Conditions)
	})
}

func conditionOf(t *testing.T, r *fleet.Runtime, kind string) metav1.Condition {
	t.Helper()
	record, err := r.Record(t.Context())
	must(t, err)
	if found := meta.FindStatusCondition(record.Status.Conditions, kind); found != nil {
		return *found
	}
	return metav1.Condition{}
}

// pushImage pushes the image that a sample module uses.
func pushImage(t *testing.T, registries *store.Registries, repository, tag string) bundle.Blob {
	t.Helper()
	to, err := registries.Repository(repository)
	must(t, err)
	layer, config := bundle.NewBlob(ocispec.MediaTypeImageLayer, []byte(repository+tag)),
		bundle.NewBlob(ocispec.MediaTypeImageConfig, []byte(`{}`))
	must(t, store.PushBlob(t.Context(), to, layer))
	must(t, store.PushBlob(t.Context(), to, config))
	data, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: config.Descriptor, Layers: []ocispec.Descriptor{layer.Descriptor},
	})
	must(t, err)
	image := bundle.NewBlob(ocispec.MediaTypeImageManifest, data)
	must(t, store.PushManifest(t.Context(), to, image, tag))
	return image
}

// The runtime "ship" has its own registry, and the runtime "bunker" has a folder instead. Neither can connect to the
// fleet's registry.
func TestAirGappedRuntimeIsManagedOnlyByFiles(t *testing.T) {
	suite.Long(t) // the short suite runs TestImportedReportOfFailedCheckTriggersRollback and TestDeltasAreImportedInOrder
	ctx := t.Context()
	v := newAirGappedFleet(t, fleet.Options{Secured: true})
	f := v.Fleet
	own, err := registry.Start(ctx, registry.Options{})
	must(t, err)
	t.Cleanup(func() { _ = own.Close() })
	var written atomic.Int64 // writes to the ship's registry by programs other than its agent
	own.Intercept(func(_ http.ResponseWriter, request *http.Request) bool {
		if request.Method != http.MethodGet && request.Method != http.MethodHead &&
			!strings.Contains(request.URL.Path, "/reports/") {
			written.Add(1)
		}
		return false
	})
	unwritten := func(t *testing.T, before int64) {
		t.Helper()
		if n := written.Load() - before; n != 0 {
			t.Errorf("%d requests wrote to the ship's registry, want none", n)
		}
	}
	harbor := own.Host() + "/ship"
	cellar, drops := store.LayoutScheme+v.file("cellar"), v.file("drops")
	must(t, os.Mkdir(drops, 0o700))
	must(t, os.Mkdir(v.file("cellar"), 0o700))
	ship, err := f.AddCarried(ctx, "ship", "regular", harbor, nil, "scaler", "mailer")
	must(t, err)
	bunker, err := f.AddCarried(ctx, "bunker", "regular", cellar, []string{"--import-folder", drops}, "scaler",
		"mailer")
	must(t, err)
	first := map[string]string{"scaler": "1.7.0", "mailer": "1.0.0"}
	v.published(ship, first)
	v.published(bunker, first)

	t.Run("import of the first bundle from a file installs its modules", func(t *testing.T) {
		contents := v.export("one.tar", "ship", "bunker", "--dry-run")
		if _, err := os.Stat(v.file("one.tar")); !errors.Is(err, os.ErrNotExist) ||
			!strings.Contains(contents, "scaler 1.7.0, raw-manifest") {
			t.Errorf("dry run: want no file (got %v) and all contents listed, got:\n%s", err, contents)
		}
		v.export("one.tar", "ship", "bunker")
		v.imports(0, harbor, v.file("one.tar"))
		untilOwn(t, ship, first)
		// An operator can move a file into the folder at any time.
		must(t, os.Rename(v.file("one.tar"), filepath.Join(drops, "one.tar")))
		untilOwn(t, bunker, first)
	})
	t.Run("condition reports imported data", func(t *testing.T) {
		if c := conditionOf(t, ship, v1beta2.ConditionReporting); c.Reason != "NeverReported" {
			t.Errorf("condition before the import: %+v", c)
		}
		v.report(ship, harbor, "report-1.json")
		until(t, 30*time.Second, "the control plane accepts the imported report", func() (bool, string) {
			c := conditionOf(t, ship, v1beta2.ConditionReporting)
			return c.Reason == "Carried" && c.Status == metav1.ConditionTrue &&
				strings.Contains(c.Message, "the latest is from 20"), c.Message
		})
	})
	// The next bundle contains the runtime's key, cluster UID and Kyma from the report.
	sinceReport := v.file("report-1.json")
	promote(t, f, "1.8.0")
	second := v.published(ship, map[string]string{"scaler": "1.8.0", "mailer": "1.0.0"})
	v.export("two.tar", "ship", "--since", sinceReport)
	host := f.Registry.Host()
	image := pushImage(t, f.Registries, host+"/lab/mailer", "1.1.0")
	must(t, f.Offer(ctx, mailerWithImage(host, "1.1.0")))
	must(t, release(ctx, f, mailerWithImage(host, "1.1.0")))
	last := map[string]string{"scaler": "1.8.0", "mailer": "1.1.0"}
	v.published(ship, last)
	// With --renderer none, the export cannot find scaler's image.
	v.export("three.tar", "ship", "--since", second, "--images", "--renderer", "none")

	t.Run("import of a delta without its base names the missing content", func(t *testing.T) {
		writes := written.Load()
		output := v.imports(3, harbor, v.file("three.tar"))
		if want := sample.Scaler("1.8.0").ContentDigest().String(); !strings.Contains(output, want) ||
			!strings.Contains(output, "module scaler 1.8.0") {
			t.Errorf("output does not name %s:\n%s", want, output)
		}
		unwritten(t, writes)
	})
	t.Run("modified files are refused", func(t *testing.T) {
		suite.Long(t) // the short suite runs TestRefusedFileWritesNothing
		data, err := os.ReadFile(v.file("two.tar"))
		must(t, err)
		writes := written.Load()
		for name, bytes := range map[string][]byte{
			"tampered": append(append([]byte{}, data[:len(data)-2000]...),
				append([]byte("x"), data[len(data)-1999:]...)...),
			"truncated": data[:len(data)-1024],
			"reordered": append(append([]byte{}, data[len(data)/2:]...), data[:len(data)/2]...),
		} {
			path := v.file(name + ".tar")
			must(t, os.WriteFile(path, bytes, 0o600))
			v.imports(3, harbor, path)
		}
		unwritten(t, writes)
	})
	t.Run("consecutive deltas update the runtime", func(t *testing.T) {
		v.imports(0, harbor, v.file("two.tar"))
		untilOwn(t, ship, map[string]string{"scaler": "1.8.0", "mailer": "1.0.0"})
		output := v.imports(0, harbor, v.file("three.tar"))
		untilOwn(t, ship, last)
		mirror := fmt.Sprintf("%s=%s/%s", host, harbor, bundle.ImageRepository(host))
		if !strings.Contains(output, "agents need --mirror "+mirror) {
			t.Fatalf("output does not list the settings that agents need:\n%s", output)
		}
		page := blockAfter(t, "docs/guides/airgap.md", "Images and mirrors", "")
		if want := "agents need --mirror docker.io=registry.ship.example/fleet/" + bundle.ImageRepository("docker.io") +
			"\n"; page != want {
			t.Errorf("docs/guides/airgap.md shows %q, but the program prints %q", page, want)
		}
		ship.AgentFlags = []string{"--mirror", mirror}
		ship.Agent().Stop()
		must(t, ship.StartAgent())
		there := harbor + "/" + bundle.ImageRepository(host+"/lab/mailer")
		until(t, 30*time.Second, "the Deployment pulls its image from the ship's registry", func() (bool, string) {
			found := imageOf(t, ship, "mailer")
			return found == there+":1.1.0", found
		})
		repository, err := f.Registries.Repository(there)
		must(t, err)
		repository.PlainHTTP = true
		if found, err := repository.Resolve(ctx, "1.1.0"); err != nil || found.Digest != image.Descriptor.Digest {
			t.Errorf("got image %s (error %v), want %s", found.Digest, err, image.Descriptor.Digest)
		}
	})
	t.Run("older files are refused and repeated imports change nothing", func(t *testing.T) {
		suite.Long(t) // the short suite runs TestDeltasAreImportedInOrder and TestRefusedFileWritesNothing
		writes := written.Load()
		if output := v.imports(3, harbor, v.file("two.tar")); !strings.Contains(output, "Rollback") {
			t.Errorf("import of an older file is not refused:\n%s", output)
		}
		v.imports(0, harbor, v.file("three.tar"))
		if output := v.importReport(0, "report-1.json"); !strings.Contains(output, "already exists") {
			t.Errorf("repeated import of a report:\n%s", output)
		}
		v.report(ship, harbor, "report-2.json")
		if output := v.importReport(3, "report-1.json"); !strings.Contains(output, "Rollback") {
			t.Errorf("import of an older report is not refused:\n%s", output)
		}
		unwritten(t, writes)
		// The latest report can be older than the Deployment's readiness.
		until(t, 60*time.Second, "an imported report shows that all modules are ready", func() (bool, string) {
			v.report(ship, harbor, "report-3.json")
			record, err := ship.Record(ctx)
			if err != nil {
				return false, err.Error()
			}
			return record.Status.State == v1beta2.StateReady, fmt.Sprintf("%+v", record.Status.Modules)
		})
	})
}

// mailerWithImage returns a version of mailer whose component descriptor lists the image.
func mailerWithImage(host, version string) sample.Version {
	v := sample.Mailer(version)
	v.Resources = []sample.Resource{
		{
			Name: "raw-manifest", Type: "directoryTree", MediaType: "application/x-tar",
			Content: sample.Tar("mailer.yaml", v.Manifest),
		},
		{Name: "mailer-image", Type: "ociImage", Image: host + "/lab/mailer:" + version},
	}
	return v
}
