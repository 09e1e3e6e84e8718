package command

import (
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

func TestTimeoutAppliesToAllRequestsExceptWatches(t *testing.T) {
	queries := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		queries <- r.URL.RawQuery
	}))
	defer server.Close()
	config := longWatches(&rest.Config{
		Host: server.URL, ContentConfig: rest.ContentConfig{NegotiatedSerializer: scheme.Codecs},
	})
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	options := metav1.ListOptions{TimeoutSeconds: new(int64(300)), LabelSelector: "a=b", ResourceVersion: "7"}
	watch, err := client.Secrets("kyma-system").Watch(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	watch.Stop()
	if got := <-queries; got != "labelSelector=a%3Db&resourceVersion=7&timeout=5m0s&watch=true" {
		t.Errorf("got watch request with %s, want no timeoutSeconds", got)
	}
	_, _ = client.Secrets("kyma-system").List(t.Context(), options) // the response is empty
	if got := <-queries; got != "labelSelector=a%3Db&resourceVersion=7&timeout=5m0s&timeoutSeconds=300" {
		t.Errorf("got list request with %s, want timeoutSeconds=300", got)
	}
}
