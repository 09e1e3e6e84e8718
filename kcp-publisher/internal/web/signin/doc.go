// Package signin authenticates web UI users.
//
// There are two ways to sign in:
//
//   - A bearer token for the API server, from the sign-in form or the Authorization header. A TokenReview verifies the
//     token at sign-in and again during the session.
//   - An OIDC provider. The provider redirects the user back with a code, which is exchanged for an ID token. The
//     token's claims become a name and groups as in kube-apiserver.
//
// The program does not store sessions, so every replica can serve every request. The user's identity is in a cookie
// that is encrypted and authenticated with AES-256-GCM. The replicas share the key. Package access checks the user's
// permissions.
package signin
