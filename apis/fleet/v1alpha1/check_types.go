package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Check defines a measurement that the agent repeats in a runtime after a module has become ready with a promoted
// version. Set at most one of cel, http, promql and job. If none is set, the agent runs the check with this name from
// the resource "checks" of the module's OCM component.
//
// +kubebuilder:validation:AtMostOneOf=cel;http;promql;job
type Check struct {
	// +kubebuilder:validation:Pattern:=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength:=40
	Name string `json:"name"`
	// CEL evaluates an expression over objects in the runtime.
	// +optional
	CEL *CELCheck `json:"cel,omitempty"`
	// HTTP sends a GET request to a Service in the runtime.
	// +optional
	HTTP *HTTPCheck `json:"http,omitempty"`
	// PromQL sends an instant query to a Prometheus-compatible endpoint in the runtime.
	// +optional
	PromQL *PromQLCheck `json:"promql,omitempty"`
	// Job runs a Job to completion. Only a check in the resource "checks" of a module's OCM component can have a Job.
	// +optional
	Job *JobCheck `json:"job,omitempty"`
	// Interval is the time between two measurements. It must be at least 10 seconds.
	// +kubebuilder:default:="30s"
	// +optional
	// +kubebuilder:validation:Type:=string
	// +kubebuilder:validation:MaxLength:=20
	// +kubebuilder:validation:Pattern:=`^(0|([0-9]{1,6}(\.[0-9]{1,9})?(h|m|s|ms|us|ns))+)$`
	Interval metav1.Duration `json:"interval,omitzero"`
	// Timeout limits the duration of one measurement. It must be at most 5 minutes. A measurement that takes longer is
	// Inconclusive.
	// +kubebuilder:default:="10s"
	// +optional
	// +kubebuilder:validation:Type:=string
	// +kubebuilder:validation:MaxLength:=20
	// +kubebuilder:validation:Pattern:=`^(0|([0-9]{1,6}(\.[0-9]{1,9})?(h|m|s|ms|us|ns))+)$`
	Timeout metav1.Duration `json:"timeout,omitzero"`
	// SuccessThreshold is the number of consecutive successful measurements after which the check is Passed.
	// +kubebuilder:default:=3
	// +kubebuilder:validation:Minimum:=1
	// +kubebuilder:validation:Maximum:=100
	// +optional
	SuccessThreshold int32 `json:"successThreshold,omitempty"`
	// FailureThreshold is the number of consecutive failed measurements after which the check is Failed. A Failed check
	// stays Failed, even if later measurements succeed.
	// +kubebuilder:default:=3
	// +kubebuilder:validation:Minimum:=1
	// +kubebuilder:validation:Maximum:=100
	// +optional
	FailureThreshold int32 `json:"failureThreshold,omitempty"`
}

// CELCheck evaluates an expression over objects. The check succeeds if the expression is true.
// +kubebuilder:validation:XValidation:rule="!has(self.kind) || !(self.kind in ['Secret', 'secret']) || has(self.apiVersion) && self.apiVersion.contains('.')",message="a check cannot read Secrets"
type CELCheck struct {
	// APIVersion and Kind select the objects in the variable "objects". Leave both empty if the expression does not use
	// objects. Secrets cannot be selected.
	// +optional
	// +kubebuilder:validation:MaxLength:=253
	APIVersion string `json:"apiVersion,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength:=63
	Kind string `json:"kind,omitempty"`
	// Namespace limits the objects to one namespace. If empty, objects in all namespaces are selected.
	// +optional
	// +kubebuilder:validation:MaxLength:=63
	Namespace string `json:"namespace,omitempty"`
	// Selector limits the objects by their labels.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Expression is a CEL expression over "objects", a list of at most 500 objects, for example
	// `objects.all(o, o.status.state == "Ready")`. A result that is not a boolean is Inconclusive.
	// +kubebuilder:validation:MinLength:=1
	// +kubebuilder:validation:MaxLength:=2048
	Expression string `json:"expression"`
}

// ServiceReference identifies a port of a Service in the runtime.
type ServiceReference struct {
	// +kubebuilder:validation:MinLength:=1
	// +kubebuilder:validation:MaxLength:=63
	Namespace string `json:"namespace"`
	// +kubebuilder:validation:MinLength:=1
	// +kubebuilder:validation:MaxLength:=63
	Name string `json:"name"`
	// +kubebuilder:validation:Minimum:=1
	// +kubebuilder:validation:Maximum:=65535
	Port int32 `json:"port"`
	// Scheme is http or https. With https, the agent does not verify the server certificate, because Services'
	// certificates are usually not signed by a public CA.
	// +kubebuilder:validation:Enum=http;https
	// +kubebuilder:default:="http"
	// +optional
	Scheme string `json:"scheme,omitempty"`
}

// HTTPCheck sends a GET request. The check succeeds if the response has the expected status, arrives within maxLatency,
// and makes the expression true.
type HTTPCheck struct {
	Service ServiceReference `json:"service"`
	// Path is the path of the request with an optional query, such as "/healthz".
	// +kubebuilder:validation:Pattern:=`^/`
	// +kubebuilder:validation:MaxLength:=1024
	// +kubebuilder:default:="/"
	// +optional
	Path string `json:"path,omitempty"`
	// Status is the expected status code. Defaults to 200.
	// +kubebuilder:default:=200
	// +kubebuilder:validation:Minimum:=100
	// +kubebuilder:validation:Maximum:=599
	// +optional
	Status int32 `json:"status,omitempty"`
	// MaxLatency is the maximum time from sending the request until the response body is read. It must be less than the
	// check's timeout, because a measurement that exceeds the timeout is Inconclusive. Zero means no limit.
	// +optional
	// +kubebuilder:validation:Type:=string
	// +kubebuilder:validation:MaxLength:=20
	// +kubebuilder:validation:Pattern:=`^(0|([0-9]{1,6}(\.[0-9]{1,9})?(h|m|s|ms|us|ns))+)$`
	MaxLatency metav1.Duration `json:"maxLatency,omitzero"`
	// Expression is a CEL expression over "body", the decoded JSON of the response, for example `body.queue < 100`.
	// +optional
	// +kubebuilder:validation:MaxLength:=2048
	Expression string `json:"expression,omitempty"`
}

// PromQLCheck sends an instant query that must return one number. The measurement is Inconclusive if the query returns
// no data.
//
// +kubebuilder:validation:AtLeastOneOf=max;min;maxIncreasePercent
type PromQLCheck struct {
	// Service is the Prometheus-compatible endpoint.
	Service ServiceReference `json:"service"`
	// Path is the part of the URL path before /api/v1/query, such as "/prometheus".
	// +optional
	// +kubebuilder:validation:Pattern:=`^/`
	// +kubebuilder:validation:MaxLength:=253
	Path string `json:"path,omitempty"`
	// Query is the PromQL expression.
	// +kubebuilder:validation:MinLength:=1
	// +kubebuilder:validation:MaxLength:=2048
	Query string `json:"query"`
	// Max and Min are the accepted bounds of the value, as decimal numbers such as "0.25".
	// +optional
	// +kubebuilder:validation:Pattern:=`^-?[0-9]+(\.[0-9]+)?$`
	// +kubebuilder:validation:MaxLength:=32
	Max string `json:"max,omitempty"`
	// +optional
	// +kubebuilder:validation:Pattern:=`^-?[0-9]+(\.[0-9]+)?$`
	// +kubebuilder:validation:MaxLength:=32
	Min string `json:"min,omitempty"`
	// MaxIncreasePercent is the maximum increase, in percent, over the value that the same query returned before the
	// upgrade. If the value before the upgrade is unknown, a measurement within max and min is Inconclusive. For a
	// first installation, only max and min apply. If both are unset, the measurement is Inconclusive.
	// +optional
	// +kubebuilder:validation:Minimum:=0
	// +kubebuilder:validation:Maximum:=100000
	MaxIncreasePercent *int32 `json:"maxIncreasePercent,omitempty"`
}

// JobCheck runs a Job once per measurement. The check succeeds if the Job completes within the timeout.
type JobCheck struct {
	// Namespace is the Job's namespace. The module must have objects in this namespace.
	// +kubebuilder:validation:MinLength:=1
	// +kubebuilder:validation:MaxLength:=63
	Namespace string `json:"namespace"`
	// Template is the batch/v1 JobSpec.
	// +kubebuilder:pruning:PreserveUnknownFields
	Template runtime.RawExtension `json:"template"`
}
