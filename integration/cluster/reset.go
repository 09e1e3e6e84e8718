package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// Where etcd keeps what a reset has to know by name.
const (
	root       = "/registry/"
	rootEnd    = "/registry0" // the first key after all that start with root
	kubeSystem = root + "namespaces/kube-system"
	crds       = root + "apiextensions.k8s.io/customresourcedefinitions/"
	// The API server makes APIServices for definitions, and removes them once it has noticed that those are gone.
	apiServices = root + "apiregistration.k8s.io/apiservices/"
)

var (
	// restless are what the API server renews for itself.
	restless = []string{root + "leases/kube-system/apiserver-", root + "masterleases/"}
	// remembered are objects that the API server compiles or connects to, and forgets some time after they are gone.
	remembered = []string{
		root + "validatingwebhookconfigurations/", root + "mutatingwebhookconfigurations/", root + "validatingadmissionpolicies/",
		root + "validatingadmissionpolicybindings/", root + "mutatingadmissionpolicies/", root + "mutatingadmissionpolicybindings/",
	}
	// atFirst are what an API server makes soon after it first answers.
	atFirst = []string{
		kubeSystem, root + "namespaces/default", root + "namespaces/kube-public", root + "namespaces/kube-node-lease",
		root + "services/specs/default/kubernetes", root + "services/endpoints/default/kubernetes", root + "servicecidrs/kubernetes",
	}
)

// resetTime is more than a reset takes on a busy machine. A cluster that takes longer is not used again.
const resetTime = 20 * time.Second

// origin is what a cluster has to be again.
type origin struct {
	stored map[string]entry // what is in etcd, by key
	served []string         // the resources of its API
}

// entry is a value in etcd. JSON brings it as base64, and takes it back so.
type entry struct {
	Key      []byte `json:"key"`
	Value    []byte `json:"value"`
	Revision int64  `json:"mod_revision,string"`
}

// remember notes what a cluster is that nobody has used yet.
func (c *Cluster) remember(ctx context.Context) error {
	return c.eventually(ctx, func(ctx context.Context) error {
		stored, err := c.stored(ctx)
		if err != nil {
			return err
		}
		for _, key := range atFirst {
			if _, there := stored[key]; !there {
				return fmt.Errorf("a new cluster has no %s", key)
			}
		}
		served, err := c.served()
		c.origin = origin{stored: stored, served: served}
		return err
	})
}

// reset makes the cluster again what it was when it was new, but for the identity that its namespace kube-system gives it, which is
// a new one. Nobody may use it meanwhile.
//
// It writes to etcd behind the API server, which learns of it as of another API server's writes. So neither finalizers nor
// namespaces hold anything up.
func (c *Cluster) reset(ctx context.Context) error {
	if c.paused {
		return errors.New("its API server is stopped")
	}
	if err := c.restore(ctx); err != nil {
		return err
	}
	if err := c.delete(ctx, kubeSystem); err != nil {
		return err
	}
	namespaces := kubernetes.NewForConfigOrDie(c.Config).CoreV1().Namespaces()
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}
	if _, err := namespaces.Create(ctx, system, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make namespace %s: %w", system.Name, err)
	}
	// The API server's own watches are behind etcd, until it serves no more and no less than at first.
	return c.eventually(ctx, func(ctx context.Context) error {
		served, err := c.served()
		if err != nil {
			return err
		}
		if !slices.Equal(served, c.origin.served) {
			return fmt.Errorf("its API has %d resources, not %d", len(served), len(c.origin.served))
		}
		return c.compare(ctx)
	})
}

// restore puts back in etcd what is not as it was.
func (c *Cluster) restore(ctx context.Context) error {
	now, err := c.stored(ctx)
	if err != nil {
		return err
	}
	for key := range now {
		if before, known := c.origin.stored[key]; known && before.Revision == now[key].Revision {
			continue
		} else if isUnder(key, remembered) || known && strings.HasPrefix(key, crds) {
			return fmt.Errorf("the API server would remember %s", key)
		} else if !known && !strings.HasPrefix(key, apiServices) {
			if err := c.delete(ctx, key); err != nil {
				return err
			}
		}
	}
	for key, before := range c.origin.stored {
		if now[key].Revision == before.Revision {
			continue
		}
		if err := c.put(ctx, before); err != nil {
			return err
		}
	}
	return nil
}

// compare fails as long as something is in etcd that was not, or the other way round, and then notes the new revisions.
func (c *Cluster) compare(ctx context.Context) error {
	now, err := c.stored(ctx)
	if err != nil {
		return err
	}
	for key := range now {
		if _, known := c.origin.stored[key]; !known {
			return fmt.Errorf("it has %s", key)
		}
	}
	for key, before := range c.origin.stored {
		if key != kubeSystem && !bytes.Equal(now[key].Value, before.Value) {
			return fmt.Errorf("%s is not as before", key)
		}
	}
	c.origin.stored = now
	return nil
}

func (c *Cluster) eventually(ctx context.Context, holds func(context.Context) error) error {
	var problem error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, resetTime, true, func(ctx context.Context) (bool, error) {
		problem = holds(ctx)
		return problem == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", err, problem)
	}
	return nil
}

// served lists the resources of the API.
func (c *Cluster) served() ([]string, error) {
	_, lists, err := kubernetes.NewForConfigOrDie(c.Config).Discovery().ServerGroupsAndResources()
	if err != nil {
		return nil, fmt.Errorf("discover the API: %w", err)
	}
	var names []string
	for _, list := range lists {
		for _, resource := range list.APIResources {
			names = append(names, list.GroupVersion+" "+resource.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// stored is all that the API server keeps in etcd, but for what is restless.
func (c *Cluster) stored(ctx context.Context) (map[string]entry, error) {
	var answer struct{ Kvs []entry }
	if err := c.etcd(ctx, "range", map[string][]byte{"key": []byte(root), "range_end": []byte(rootEnd)}, &answer); err != nil {
		return nil, err
	}
	stored := map[string]entry{}
	for _, e := range answer.Kvs {
		if !isUnder(string(e.Key), restless) {
			stored[string(e.Key)] = e
		}
	}
	return stored, nil
}

func (c *Cluster) delete(ctx context.Context, key string) error {
	return c.etcd(ctx, "deleterange", map[string][]byte{"key": []byte(key)}, nil)
}

func (c *Cluster) put(ctx context.Context, e entry) error {
	return c.etcd(ctx, "put", map[string][]byte{"key": e.Key, "value": e.Value}, nil)
}

// etcd calls etcd's JSON API.
func (c *Cluster) etcd(ctx context.Context, method string, arguments map[string][]byte, answer any) error {
	body, err := json.Marshal(arguments)
	if err != nil {
		return err
	}
	url := c.env.ControlPlane.Etcd.URL.JoinPath("v3", "kv", method).String()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("ask etcd: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("ask etcd: %s answers %s", url, response.Status)
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

func isUnder(key string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}
