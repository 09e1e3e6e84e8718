// Package notify notifies agents of new bundles in the registry. An agent keeps a connection open and receives one line
// of server-sent events for each bundle that is pushed for its runtime.
//
// A notification contains no data and decides nothing. An agent that receives none, or too many, polls as without
// notifications.
//
// Thousands of connections stay open for days with little traffic, so the cost of an idle connection matters. After the
// response, the server hands the connection over. It is never read again, and has a goroutine and a buffer only while
// something is written. Each write has its own goroutine and deadline, so an agent that does not read delays no other
// agent. The next comment, which is sent in idle times, detects an agent that is gone.
package notify
