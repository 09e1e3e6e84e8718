// Package signin says who looks at the page of the fleet. A request goes in; out comes the user whom the API server or an OIDC provider
// vouches for, or a form to sign in with.
//
// There are two ways in. A bearer token of the API server, from the form or from the Authorization header, is shown to the API server by
// TokenReview, at the start and again after a while. With an OIDC provider the user comes back from it with a code, which is exchanged
// for an ID token; its claims become a name and groups as kube-apiserver makes them.
//
// Nothing about sessions is kept in the program, so that every replica answers every request. What identifies the user is in a cookie,
// encrypted and authenticated with AES-256-GCM under a key that the replicas share. Its time is bounded: by the lifetime of sessions,
// and by that of the ID token. The package decides nothing about what a user may see; package access does.
package signin
