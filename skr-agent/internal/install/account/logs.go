package account

import (
	"context"
	"io"
	"net/http"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// newPodClient returns a REST client for Pod logs.
func newPodClient(config *rest.Config, http *http.Client) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	return rest.RESTClientForConfigAndClient(config, http)
}

// Log returns the end of a container's log. previous selects the previous run's log.
func (a *Account) Log(ctx context.Context, namespace, pod, container string, previous bool) (string, error) {
	stream, err := a.pods.Get().Namespace(namespace).Resource("pods").Name(pod).SubResource("log").
		Param("container", container).Param("previous", strconv.FormatBool(previous)).
		Param("tailLines", strconv.Itoa(loggedLines)).Param("limitBytes", strconv.Itoa(loggedBytes)).Stream(ctx)
	if err != nil {
		return "", err
	}
	defer stream.Close() //nolint:errcheck // an error on closing a read-only stream loses no data
	data, err := io.ReadAll(io.LimitReader(stream, loggedBytes))
	return string(data), err
}

// Limits for one container's log.
const (
	loggedLines = 25
	loggedBytes = 16 << 10
)
