// Package receiver accepts the notifications that distribution, zot and Harbor send after a push, and returns the names
// of runtimes that may have reported.
//
// A notification is not trusted. It only makes the publisher read a report earlier, at a limited rate.
package receiver
