// Package token issues registry tokens, so a registry can distinguish runtimes. It takes a user's name with a derived
// password and returns a JSON Web Token. The token is valid for five minutes and only grants access to the repositories
// that the user needs, regardless of the request:
//
//	runtime <id>   pull       <prefix>/runtimes/<id>, <prefix>/trust, <prefix>/content, module repositories
//	               pull,push  <prefix>/reports/<id>
//	_publisher     pull,push  everything below <prefix>;  pull  module repositories
//	_modules       pull,push  module repositories
//	_pruner        pull,delete       everything below <prefix> except <prefix>/trust, which it can pull;  the registry's catalog
//	               pull,push,delete  <prefix>/pruning
//
// No other user can delete, or see the registry's catalog. Passwords are derived from the fleet's token secret and
// stored nowhere. A higher generation invalidates all older passwords of a user.
//
// A password is 256 bits of an HMAC, so it cannot be guessed. A valid password is always accepted, and only the rate of
// refusals is limited, so no client can lock out another client.
//
// Source: distribution, docs/spec/auth/token.md and docs/spec/auth/jwt.md; RFC 7519.
package token
