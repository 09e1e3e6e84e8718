// Package token lets a registry distinguish runtimes. It takes a user's name with a derived password and returns a JSON
// Web Token. The token is valid for five minutes and grants exactly the repositories that the user needs, whatever the
// request asks for:
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
// A password is 256 bits of an HMAC, so it cannot be guessed. A valid one is always accepted, and only refusals are
// limited, so no client can lock out another one.
//
// Source: distribution, docs/spec/auth/token.md and docs/spec/auth/jwt.md; RFC 7519.
package token
