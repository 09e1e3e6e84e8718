// Package admission serves webhooks for the control plane's API server. They convert objects of v1beta1, and refuse
// invalid ModuleTemplates.
//
// The package creates and renews its certificates, and registers the webhooks. If the validation is unavailable, the
// API server accepts the object, and the publisher checks it later.
package admission
