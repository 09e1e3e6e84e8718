package scenario

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// behindService starts a replica with its own notification endpoints.
func behindService(t *testing.T, f *fleet.Fleet, name string) (*candidate, *fleet.Notifications) {
	t.Helper()
	own, err := fleet.NewNotifications()
	must(t, err)
	own.Token = f.Notifications().Token
	flags, err := own.PublisherFlags(f.Dir)
	must(t, err)
	return startReplica(t, f, name, append(flags, "--set=report-poll-interval=10m", "--agent-poll-interval=10m",
		"--agent-report-interval=10m")...), own
}

// oneForEach creates Kymas until each of the two replicas has one. It returns the names of these Kymas by replica.
func oneForEach(t *testing.T, f *fleet.Fleet) map[string]string {
	t.Helper()
	of, byReplica := untilShared(t, f, 2), map[string]string{}
	for i := 0; len(byReplica) < len(of)/3; i++ {
		kyma := fleet.NewKyma(fmt.Sprint("notified-", i), "regular", "scaler")
		must(t, f.CreateKyma(t.Context(), kyma))
		until(t, time.Minute, "the Kyma has the label of a shard", func() (bool, string) {
			must(t, f.Control.Get(t.Context(), client.ObjectKeyFromObject(kyma), kyma))
			return kyma.Labels[v1beta2.LabelShard] != "", ""
		})
		shard, _, _ := strings.Cut(kyma.Labels[v1beta2.LabelShard], "-of-")
		if holder := of[shard]; byReplica[holder] == "" {
			byReplica[holder] = kyma.Name
		}
	}
	return byReplica
}

// The programs poll every ten minutes, so only notifications can announce a promotion and its reports in time. The
// registry notifies only one of two replicas. Agents connect to the replicas in turn.
func TestNotificationsReachTheReplicaForARuntime(t *testing.T) {
	suite.Long(t) // the short suite runs the tests in core/shard, controller/replica and registryops/notify
	ctx := t.Context()
	n, err := fleet.NewNotifications()
	must(t, err)
	f := newFleet(t, fleet.Options{
		Notifications: n, PublisherRights: []string{"publisher.yaml", "shards.yaml"},
		AgentFlags: []string{"--poll-interval=10m", "--report-interval=10m"},
	})
	must(t, f.Offer(ctx, sample.Scaler("1.9.0")))
	must(t, f.Publisher().Stop())
	_, ofFirst := behindService(t, f, "replica-1")
	second, ofSecond := behindService(t, f, "replica-2")
	agents, err := fleet.StartSpread(n.Agents, ofFirst.Agents, ofSecond.Agents)
	must(t, err)
	t.Cleanup(func() { must(t, agents.Close()) })
	registry, err := fleet.StartSpread(n.Receiver, ofFirst.Receiver)
	must(t, err)
	t.Cleanup(func() { must(t, registry.Close()) })

	var runtimes []*fleet.Runtime
	for _, id := range oneForEach(t, f) {
		r, err := f.AddRuntime(ctx, id, "regular")
		must(t, err)
		runtimes = append(runtimes, r)
	}
	promoted := func(version string) {
		t.Helper()
		began := time.Now()
		promoteRegular(t, f, version)
		for _, r := range runtimes {
			must(t, r.UntilState(ctx, "scaler", version, v1beta2.StateReady))
		}
		t.Logf("version %s was installed and reported %s after its promotion", version,
			time.Since(began).Round(10*time.Millisecond))
	}
	for _, r := range runtimes {
		must(t, r.UntilState(ctx, "scaler", "1.7.0", v1beta2.StateReady))
	}
	promoted("1.8.0")

	second.kill(t)
	killed := time.Now()
	untilShared(t, f, 1, "replica-2")
	t.Logf("the other replica held all shards %s after a replica was killed",
		time.Since(killed).Round(100*time.Millisecond))
	promoted("1.9.0")
}
