// Package token lets a registry tell runtimes apart. A user's name with a password derived for it goes in, a JSON Web
// Token comes out that opens, for five minutes, exactly the repositories which that user needs, whatever was asked for:
//
//	runtime <id>   pull       <prefix>/runtimes/<id>, <prefix>/trust, <prefix>/content, module repositories
//	               pull,push  <prefix>/reports/<id>
//	_publisher     pull,push  everything below <prefix>;  pull  module repositories
//	_modules       pull,push  module repositories
//	_pruner        pull,delete       everything below <prefix> but <prefix>/trust, which it may pull;  the registry's catalog
//	               pull,push,delete  <prefix>/pruning
//
// Nobody else may delete, or see the registry's catalog. Passwords are derived from the fleet's token secret and stored
// nowhere; a higher generation takes all older ones of a user out of force.
//
// A password is 256 bits of an HMAC, so it cannot be guessed: a good one is always let in, and only refusals are
// limited. Nobody can lock another one out.
//
// Source: distribution, docs/spec/auth/token.md and docs/spec/auth/jwt.md; RFC 7519.
package token
