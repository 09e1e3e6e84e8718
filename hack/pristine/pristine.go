// Package pristine resets a test's API server to its initial state. A reset takes 0.2 s, or 2 s after a test with
// webhooks or admission policies.
//
// The package writes directly to etcd. Finalizers and terminating namespaces therefore do not block a reset. State
// outside etcd, such as audit logs, is not reset.
package pristine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Prefixes of keys in etcd.
const (
	root       = "/registry/"
	rootEnd    = "/registry0" // the first key after all keys with prefix root
	kubeSystem = root + "namespaces/kube-system"
	crds       = root + "apiextensions.k8s.io/customresourcedefinitions/"
	// apiServices is the prefix of APIServices. The API server creates and removes them for CRDs.
	apiServices = root + "apiregistration.k8s.io/apiservices/"
)

var (
	// periodicallyUpdated lists the key prefixes of objects that the API server updates periodically. A reset ignores
	// them.
	periodicallyUpdated = []string{
		root + "leases/kube-system/apiserver-", root + "masterleases/", root + "peerserverleases/",
	}
	// keptAfterDeletion lists the key prefixes of objects that the API server keeps in memory for some time after their
	// deletion. A reset fails if such an object has changed.
	keptAfterDeletion = []string{root + "mutatingadmissionpolicies/", root + "mutatingadmissionpolicybindings/"}
	// createdAfterStart lists the keys of objects that an API server creates shortly after its first response. Take
	// waits for them.
	createdAfterStart = []string{
		kubeSystem, root + "namespaces/default", root + "namespaces/kube-public", root + "namespaces/kube-node-lease",
		root + "servicecidrs/kubernetes", root + "services/specs/default/kubernetes",
		root + "services/endpoints/default/kubernetes",
		root + "endpointslices/default/kubernetes",
	}
)

const patience = 20 * time.Second

// Snapshot is the initial state of an API server.
type Snapshot struct {
	config *rest.Config
	etcd   *url.URL
	stored map[string]entry // by key in etcd
	served []string         // the served resources
}

// entry is a key with its value in etcd. JSON encodes both as base64.
type entry struct {
	Key      []byte `json:"key"`
	Value    []byte `json:"value"`
	Revision int64  `json:"mod_revision,string"`
}

// Take waits until a new API server has created its initial objects, and returns a snapshot. config must have admin
// permissions.
func Take(ctx context.Context, config *rest.Config, etcd *url.URL) (*Snapshot, error) {
	s := &Snapshot{config: config, etcd: etcd}
	err := eventually(ctx, func(ctx context.Context) (err error) {
		if s.stored, err = s.read(ctx); err != nil {
			return err
		}
		for _, key := range createdAfterStart {
			if _, there := s.stored[key]; !there {
				return fmt.Errorf("etcd has no key %s", key)
			}
		}
		s.served, err = s.discover()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("take a snapshot of a new API server: %w", err)
	}
	return s, nil
}

// ChangeIdentity recreates an API server's Namespace kube-system with a new UID. Call it for an API server whose etcd
// started with a copy of another cluster's data, because the namespace's UID identifies the cluster.
func ChangeIdentity(ctx context.Context, config *rest.Config, etcd *url.URL) error {
	return (&Snapshot{config: config, etcd: etcd}).changeIdentity(ctx)
}

// Restore resets the API server. Namespace kube-system gets a new UID. Other clients must not use the API server
// during the reset. After an error, callers must stop it.
func (s *Snapshot) Restore(ctx context.Context) error {
	rules, err := s.restore(ctx)
	if err != nil {
		return err
	}
	if rules {
		if err := s.forgetAdmission(ctx); err != nil {
			return fmt.Errorf("wait until the API server drops admission rules: %w", err)
		}
	}
	if err := s.changeIdentity(ctx); err != nil {
		return err
	}
	// The API server's watches lag behind etcd.
	return eventually(ctx, func(ctx context.Context) error {
		served, err := s.discover()
		if err != nil {
			return err
		}
		if !slices.Equal(served, s.served) {
			return fmt.Errorf("the API has %d resources, expected %d", len(served), len(s.served))
		}
		return s.compare(ctx)
	})
}

// changeIdentity recreates Namespace kube-system. Programs identify a cluster by the UID of this Namespace.
func (s *Snapshot) changeIdentity(ctx context.Context) error {
	if err := s.delete(ctx, kubeSystem); err != nil {
		return err
	}
	namespaces := kubernetes.NewForConfigOrDie(s.config).CoreV1().Namespaces()
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}
	if _, err := namespaces.Create(ctx, system, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %s: %w", system.Name, err)
	}
	return nil
}

// restore resets all keys in etcd that differ from the snapshot, and reports whether webhooks or admission policies
// changed. It returns an error if a changed object cannot be reset, because the API server would continue to use its
// cached copy of the object.
func (s *Snapshot) restore(ctx context.Context) (rules bool, err error) {
	now, err := s.read(ctx)
	if err != nil {
		return false, err
	}
	for key := range now {
		before, known := s.stored[key]
		if known && before.Revision == now[key].Revision {
			continue
		}
		rules = rules || isUnder(key, admission)
		switch {
		case known && strings.HasPrefix(key, crds) && sameDefinition(before.Value, now[key].Value):
			s.stored[key] = now[key]
		case isUnder(key, keptAfterDeletion) || known && strings.HasPrefix(key, crds):
			return false, fmt.Errorf("cannot reset %s: the API server keeps its own copy of objects of this kind", key)
		case !known && !strings.HasPrefix(key, apiServices):
			if err := s.delete(ctx, key); err != nil {
				return false, err
			}
		}
	}
	for key, before := range s.stored {
		if now[key].Revision == before.Revision {
			continue
		}
		if err := s.put(ctx, before); err != nil {
			return false, err
		}
	}
	return rules, nil
}

// sameDefinition reports whether two stored CRDs are equal apart from status, managed fields and identity.
func sameDefinition(before, now []byte) bool {
	var definitions [2]map[string]any
	for i, stored := range [][]byte{before, now} {
		if err := json.Unmarshal(stored, &definitions[i]); err != nil {
			return false
		}
		delete(definitions[i], "status")
		if metadata, ok := definitions[i]["metadata"].(map[string]any); ok {
			for _, field := range []string{"managedFields", "uid", "creationTimestamp", "generation"} {
				delete(metadata, field)
			}
		}
	}
	return reflect.DeepEqual(definitions[0], definitions[1])
}

// compare returns an error unless etcd and the snapshot contain the same keys. Values can differ, because the API
// server updates restored objects.
func (s *Snapshot) compare(ctx context.Context) error {
	now, err := s.read(ctx)
	if err != nil {
		return err
	}
	for key := range now {
		if _, known := s.stored[key]; !known {
			return fmt.Errorf("etcd still has key %s", key)
		}
	}
	for key := range s.stored {
		if _, there := now[key]; !there {
			return fmt.Errorf("etcd has no key %s", key)
		}
	}
	s.stored = now
	return nil
}

func eventually(ctx context.Context, holds func(context.Context) error) error {
	var problem error // the last error before the context ended
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true,
		func(ctx context.Context) (bool, error) {
			now := holds(ctx)
			if now == nil || ctx.Err() == nil {
				problem = now
			}
			return now == nil, nil
		})
	if err != nil {
		return fmt.Errorf("%w: %w", err, problem)
	}
	return nil
}

// discover returns the names of all served resources.
func (s *Snapshot) discover() ([]string, error) {
	_, lists, err := kubernetes.NewForConfigOrDie(s.config).Discovery().ServerGroupsAndResources()
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

// read returns the API server's keys in etcd, except those in periodicallyUpdated.
func (s *Snapshot) read(ctx context.Context) (map[string]entry, error) {
	var answer struct{ Kvs []entry }
	if err := s.call(ctx, "range", map[string][]byte{"key": []byte(root), "range_end": []byte(rootEnd)},
		&answer); err != nil {
		return nil, err
	}
	stored := map[string]entry{}
	for _, e := range answer.Kvs {
		if !isUnder(string(e.Key), periodicallyUpdated) {
			stored[string(e.Key)] = e
		}
	}
	return stored, nil
}

func (s *Snapshot) delete(ctx context.Context, key string) error {
	return s.call(ctx, "deleterange", map[string][]byte{"key": []byte(key)}, nil)
}

func (s *Snapshot) put(ctx context.Context, e entry) error {
	return s.call(ctx, "put", map[string][]byte{"key": e.Key, "value": e.Value}, nil)
}

// call sends a request to etcd's JSON API and decodes the response into answer, which can be nil.
func (s *Snapshot) call(ctx context.Context, method string, arguments map[string][]byte, answer any) error {
	body, err := json.Marshal(arguments)
	if err != nil {
		return err
	}
	url := s.etcd.JoinPath("v3", "kv", method).String()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("send the request to etcd: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("request to etcd: %s returned %s", url, response.Status)
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

func isUnder(key string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}
