package bundle

// The publisher notifies an agent that a bundle may have been pushed for its runtime, by server-sent events. A
// notification carries nothing and decides nothing: the agent polls the registry, as it would have done later anyway.
//
// Source: HTML Living Standard, section 9.2, "Server-sent events".
const (
	// NotificationsPath is where the publisher serves notifications. The user of the request's Basic credentials is the
	// runtime.
	NotificationsPath = "/notifications"
	// NotificationsMediaType is that of the answer, which has no end.
	NotificationsMediaType = "text/event-stream"
	// Notification is the data of the one event there is.
	Notification = "bundle"
	// NotificationsAliveSeconds is after how long without an event the publisher sends a comment, so that silence tells a
	// connection that is gone.
	NotificationsAliveSeconds = 30
)
