package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// operator runs kcp-publisher commands with a kubeconfig that has two contexts. The current context points to an
// unreachable address.
type operator struct {
	*testing.T
	binary, kubeconfig string
}

func newOperator(t *testing.T, f *fleet.Fleet) operator {
	t.Helper()
	config, err := clientcmd.LoadFromFile(filepath.Join(f.Dir, "kcp.kubeconfig"))
	must(t, err)
	current := config.Contexts[config.CurrentContext]
	config.Clusters["nowhere"] = &api.Cluster{Server: "https://127.0.0.1:1"}
	config.Contexts = map[string]*api.Context{
		"kcp": current, "nowhere": {Cluster: "nowhere", AuthInfo: current.AuthInfo},
	}
	config.CurrentContext = "nowhere"
	path := filepath.Join(t.TempDir(), "config")
	must(t, clientcmd.WriteToFile(*config, path))
	return operator{t, f.Binaries().Publisher, path}
}

func (o operator) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, o.binary, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+o.kubeconfig)
	return cmd
}

// run runs a command, checks its exit code, and returns the output.
func (o operator) run(code int, args ...string) string {
	o.Helper()
	output, got := o.try(args...)
	if got != code {
		o.Fatalf("%v: exit code %d, want %d\n%s", args, got, code, output)
	}
	return output
}

func (o operator) try(args ...string) (string, int) {
	cmd := o.command(o.Context(), args...)
	output, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		return err.Error(), -1
	}
	return string(output), cmd.ProcessState.ExitCode()
}

// watched collects a running command's output.
type watched struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (w *watched) Write(data []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(data)
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// checkRootWarning checks that commands warn before the root of trust expires. The test records an earlier expiry in
// the publisher's Lease.
func checkRootWarning(t *testing.T, f *fleet.Fleet, o operator, on []string) {
	t.Helper()
	var seen struct{ RootExpires time.Time }
	until(t, time.Minute, "the publisher records the expiry of the root of trust", func() (bool, string) {
		got := o.run(0, append([]string{"status", "-o", "json"}, on...)...)
		must(t, json.Unmarshal([]byte(got), &seen))
		return time.Until(seen.RootExpires) > 30*24*time.Hour, seen.RootExpires.String()
	})
	if got := o.run(0, append([]string{"why", "berlin"}, on...)...); strings.Contains(got, "warning") {
		t.Errorf("unexpected warning about a root that does not expire soon:\n%s", got)
	}
	other := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: sample.Namespace, Name: "kcp-publisher.kyma-pull.dev-0badc0de",
			Annotations: map[string]string{
				v1beta2.AnnotationRootOfTrust: newerRoot(t, f, time.Now().Add(7*24*time.Hour)),
			}}}
	must(t, f.Control.Create(t.Context(), other))
	for _, command := range [][]string{{"status"}, {"why", "berlin"}} {
		if got := o.run(0, append(command, on...)...); !strings.Contains(got, "warning") ||
			!strings.Contains(got, "the root of trust expires at 20") ||
			!strings.Contains(got, "kcp-publisher keys rotate") {
			t.Errorf("%v does not warn about a root that expires in a week:\n%s", command, got)
		}
	}
	must(t, f.Control.Delete(t.Context(), other))
}

// newerRoot returns the value that a publisher would record in its Lease if it had a newer root of trust. That root
// expires at the time ends.
func newerRoot(t *testing.T, f *fleet.Fleet, ends time.Time) string {
	t.Helper()
	var leases coordinationv1.LeaseList
	must(t, f.Control.List(t.Context(), &leases, client.InNamespace(sample.Namespace)))
	for i := range leases.Items {
		text, is := leases.Items[i].Annotations[v1beta2.AnnotationRootOfTrust]
		if !is {
			continue
		}
		var note map[string]any
		must(t, json.Unmarshal([]byte(text), &note))
		note["version"], note["expires"] = note["version"].(float64)+1, ends.UTC().Format(time.RFC3339)
		newer, err := json.Marshal(note)
		must(t, err)
		return string(newer)
	}
	t.Fatal("no Lease records the root of trust")
	return ""
}

// The publisher polls reports only once an hour, so changes during the test result from the operator's commands.
func TestOperatorReadsStatusAndControlsOneRuntime(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{LeaderElect: true, PublisherFlags: []string{"--set=report-poll-interval=1h"}})
	o := newOperator(t, f)
	on := []string{"--context", "kcp"}
	with := func(args ...string) []string { return append(args, on...) }
	if got := o.run(1, "status", "--request-timeout", "5s"); !strings.Contains(got, "127.0.0.1:1") {
		t.Errorf("the current context of $KUBECONFIG is not used: %s", got)
	}
	if got := o.run(0, with("status")...); got != "no runtimes in namespace kcp-system: create a Kyma to add one\n" {
		t.Errorf("unexpected status of an empty fleet: %q", got)
	}

	for _, id := range []string{"berlin", "tokyo"} {
		must(t, f.CreateKyma(ctx, fleet.NewKyma(id, "regular", "scaler")))
	}
	published := func(id, version string) {
		t.Helper()
		until(t, time.Minute, "the bundle of "+id+" contains scaler "+version, func() (bool, string) {
			kyma := &v1beta2.Kyma{}
			err := f.Control.Get(ctx, client.ObjectKey{Namespace: sample.Namespace, Name: id}, kyma)
			if err != nil || kyma.Status.Runtime == nil || kyma.Status.Runtime.Published == nil {
				return false, "no bundle"
			}
			got := kyma.Status.Runtime.Published.Versions["scaler"]
			return got == version, got
		})
	}
	published("berlin", "1.7.0")
	published("tokyo", "1.7.0")
	if got := o.run(0,
		with("status", "--silent", "-o",
			"name")...); got != "kyma.operator.kyma-project.io/berlin\nkyma.operator.kyma-project.io/tokyo\n" {
		t.Errorf("unexpected list of runtimes without a report: %q", got)
	}
	_, err := f.Simulate(ctx, fleet.NewKyma("berlin", "regular", "scaler"))
	must(t, err)
	tokyo, err := f.Simulate(ctx, fleet.NewKyma("tokyo", "regular", "scaler"))
	must(t, err)

	reconciled := func(id, health string) {
		t.Helper()
		until(t, time.Minute, "reconcile reports "+id+" as "+health, func() (bool, string) {
			got, code := o.try(with("reconcile", id)...)
			return code == 0 && strings.HasPrefix(got, "runtime "+id+" reconciled after ") &&
				strings.Contains(got, "\nruntime "+id+" is "+health), got
		})
	}
	reconciled("berlin", "Healthy")
	for args, want := range map[string]string{
		"status --silent -o name":                        "kyma.operator.kyma-project.io/tokyo\n",
		"status --failing -o name":                       "",
		"status --module scaler --version 9.9.9 -o name": "",
		"status -l kyma-project.io/region=mars -A": "no runtimes in any namespace match labels " +
			"kyma-project.io/region=mars\n",
		"status -n default": "no runtimes in namespace default: create a Kyma to add one, or search all\n" +
			"namespaces with -A\n",
	} {
		if got := o.run(0, with(strings.Fields(args)...)...); got != want {
			t.Errorf("%s: got %q, want %q", args, got, want)
		}
	}
	if got := o.run(0, with("status", "--module", "scaler", "--version", "1.7.0", "-A")...); !strings.Contains(got,
		"\nkcp-system  berlin   Healthy") {
		t.Errorf("unexpected runtimes with version 1.7.0:\n%s", got)
	}

	if got := o.run(0,
		append([]string{"__completeNoDesc", "status"}, append(on, "--module", "scaler", "")...)...); !strings.HasPrefix(
		got, "berlin\ntokyo\n") {
		t.Errorf("unexpected shell completion of runtimes: %q", got)
	}

	checkRootWarning(t, f, o, on)

	for _, watch := range []string{"", " -w"} {
		if got := o.run(1, with(strings.Fields("status --module scalr"+watch)...)...); !strings.Contains(got,
			`--module scalr is not in any channel or runtime in namespace kcp-system`) {
			t.Errorf("unexpected output of status%s for a module that no runtime has: %s", watch, got)
		}
	}
	var lines watched
	watching := o.command(ctx, with("status", "-w")...)
	watching.Stdout, watching.Stderr = &lines, &lines
	must(t, watching.Start())
	prints := func(text string) {
		t.Helper()
		until(t, time.Minute, "the watch prints "+text, func() (bool, string) {
			got := lines.String()
			return strings.Contains(got, text), got
		})
	}
	prints("1 of 2 runtimes needs attention: 1 never reported, 1 healthy")
	o.run(0, with("suspend", "berlin", "--reason", "its rack moves")...)
	prints("  berlin  Suspended  ")
	must(t, watching.Process.Signal(os.Interrupt))
	if err := watching.Wait(); err != nil {
		t.Errorf("interrupted watch returned %v\n%s", err, lines.String())
	}

	if got := o.run(1, with("reconcile", "berlin")...); !strings.Contains(got, "run `kcp-publisher resume` first") {
		t.Errorf("unexpected output of reconcile for a suspended runtime: %s", got)
	}
	promote(t, f, "1.8.0")
	published("tokyo", "1.8.0")
	var berlin struct {
		Health, Namespace string
		Modules           []struct{ Name, Asked string }
	}
	must(t, json.Unmarshal([]byte(o.run(0, with("status", "berlin", "-o", "json")...)), &berlin))
	if berlin.Health != "Suspended" || len(berlin.Modules) != 1 || berlin.Modules[0].Asked != "1.7.0" {
		t.Errorf("want an unchanged suspended runtime, got %+v", berlin)
	}
	if got := o.run(0, with("resume", "berlin")...); got != "runtime berlin is resumed\n" {
		t.Errorf("unexpected output of resume: %q", got)
	}
	published("berlin", "1.8.0")
	reconciled("berlin", "Healthy")
	if got := o.run(3, with("status", "--exit-code")...); !strings.HasPrefix(got,
		"1 of 2 runtimes needs attention: 1 never reported, 1 healthy\n") {
		t.Errorf("unexpected fleet status:\n%s", got)
	}
	tokyo.BreakWith("1.8.0")
	reconciled("tokyo", "Failing")
	if got := o.run(3, with("status", "--exit-code", "--failing", "-o", "name")...); !strings.HasPrefix(got,
		"kyma.operator.kyma-project.io/tokyo\n") {
		t.Errorf("unexpected failing runtimes:\n%s", got)
	}
}
