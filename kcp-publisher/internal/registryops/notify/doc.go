// Package notify notifies agents of new bundles in the registry. An agent keeps a connection open and receives one line
// of server-sent events for each bundle that is pushed for its runtime.
//
// A notification contains no data and only makes the agent poll earlier. An agent that receives no notifications, or
// too many, polls at its usual interval.
//
// Thousands of connections stay open for days with little traffic, so the cost of an idle connection matters. The
// package takes the connection over from the HTTP server. It never reads the connection again, and uses a goroutine and
// a buffer only during a write. Each write has its own goroutine and deadline, so an agent that does not read does not
// delay other agents. Comments on idle connections detect agents that have disconnected.
package notify
