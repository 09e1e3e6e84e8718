// Package token issues registry tokens, so that a registry can distinguish runtimes. It takes a user's name and
// password and returns a JSON Web Token. The token is valid for five minutes and grants access only to the repositories
// that the user needs:
//
//	runtime <id>   pull       <prefix>/runtimes/<id>, <prefix>/trust, <prefix>/content, module repositories
//	               pull,push  <prefix>/reports/<id>
//	_publisher     pull,push  everything below <prefix>;  pull  module repositories
//	_modules       pull,push  module repositories
//	_pruner        pull,delete       everything below <prefix> except <prefix>/trust, which it can pull;  the registry's catalog
//	               pull,push,delete  <prefix>/pruning
//	_reader        pull       the runtimes' bundles and reports, <prefix>/trust, <prefix>/content, module repositories
//
// Passwords are derived from the fleet's token secret and not stored. A higher generation invalidates all of a user's
// older passwords. A valid password is always accepted, and only the refusal rate is limited.
//
// Source: distribution, docs/spec/auth/token.md and docs/spec/auth/jwt.md; RFC 7519.
package token
