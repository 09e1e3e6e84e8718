// Package admission serves webhooks for the control plane's API server. It converts objects of v1beta1, and refuses
// invalid ModuleTemplates with an error that contains the field.
//
// It creates and renews its certificates, and registers its address with the API server. Only clients of v1beta1 depend
// on the webhooks. Objects of v1beta2 are stored unchanged and need no conversion. If a check is unavailable, the API
// server accepts the object. The publisher checks every object again when it resolves modules.
package admission
