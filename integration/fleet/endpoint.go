package fleet

import (
	"context"
	"errors"
	"net"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ExposeEndpoint creates a Service and its namespace. The given address is the Service's only endpoint. If the Service
// already exists, ExposeEndpoint replaces the endpoint.
func ExposeEndpoint(
	ctx context.Context, runtime client.Client, service client.ObjectKey, servicePort int32, endpoint netip.AddrPort,
) error {
	const portName = "web"
	at := metav1.ObjectMeta{
		Namespace: service.Namespace, Name: service.Name,
		Labels: map[string]string{discoveryv1.LabelServiceName: service.Name},
	}
	ready, tcp, port := true, corev1.ProtocolTCP, int32(endpoint.Port())
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: at, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{endpoint.Addr().String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		}},
		Ports: []discoveryv1.EndpointPort{{Name: new(portName), Protocol: &tcp, Port: &port}},
	}
	if err := client.IgnoreNotFound(runtime.Delete(ctx, slice.DeepCopy())); err != nil {
		return err
	}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: service.Namespace}},
		&corev1.Service{ObjectMeta: at, Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Name: portName, Port: servicePort}},
		}},
	} {
		if err := client.IgnoreAlreadyExists(runtime.Create(ctx, object)); err != nil {
			return err
		}
	}
	return runtime.Create(ctx, slice)
}

// OwnAddress returns an IPv4 address of this machine that an EndpointSlice can contain.
func OwnAddress() (string, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, a := range all {
		if prefix, ok := a.(*net.IPNet); ok && prefix.IP.To4() != nil && prefix.IP.IsGlobalUnicast() {
			return prefix.IP.String(), nil
		}
	}
	return "", errors.New("this machine has only loopback IPv4 addresses, which an EndpointSlice cannot contain")
}
