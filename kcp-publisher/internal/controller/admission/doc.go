// Package admission serves webhooks for the control plane's API server. They convert objects from and to v1beta1,
// reject invalid ModuleTemplates, RolloutPolicies and Rollouts, and return warnings for ModuleReleaseMetas.
//
// The package creates and renews the webhook certificates, and registers the webhooks in the API server. If a
// validating webhook is unavailable, the API server accepts the object, and the publisher checks it later.
package admission
