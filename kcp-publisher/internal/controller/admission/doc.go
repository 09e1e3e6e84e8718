// Package admission answers the control plane's API server: it converts objects of v1beta1, and refuses ModuleTemplates
// that could never be resolved, with the field's name.
//
// It makes and renews the certificates it serves with, and tells the API server where it is. It promises that nothing
// depends on it but v1beta1: objects of v1beta2 are stored as they are and need no conversion, and a check that cannot
// be asked lets everything pass, because the publisher checks again when it resolves.
package admission
