// Package notify tells agents that there is something for them in the registry. An agent keeps a connection open, and
// gets one line of server-sent events on it for each bundle that is pushed for its runtime.
//
// A notification carries nothing and decides nothing. An agent that gets none, or too many, does what it does without:
// it polls.
//
// Thousands of connections are open for days and carry next to nothing, so that what counts is what one costs while it
// is idle. Once a request is answered its connection is taken from the HTTP server. It is never read from again, and
// there is no goroutine and no buffer for it but while something is written. Each write has a goroutine and a deadline
// of its own: an agent that does not read delays nobody else. An agent that is gone is noticed by the next comment,
// which is sent while there is nothing to tell.
package notify
