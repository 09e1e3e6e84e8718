// Package notify notifies agents about new bundles with server-sent events. A notification does not contain data. It
// only makes the agent poll earlier.
//
// Thousands of connections stay open with little traffic. The package takes the connection over from the HTTP server,
// and uses a goroutine and a buffer only during a write. Comments on idle connections detect disconnected agents.
package notify
