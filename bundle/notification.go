package bundle

// The publisher notifies an agent by server-sent events that a new bundle may exist for its runtime. A notification has
// no content and is not trusted: it only makes the agent poll the registry earlier.
//
// Source: HTML Living Standard, section 9.2, "Server-sent events".
const (
	// NotificationsPath is the path of the publisher's notification endpoint. The user name in the request's Basic
	// credentials is the runtime ID.
	NotificationsPath = "/notifications"
	// NotificationsMediaType is the media type of the response, which is an endless stream.
	NotificationsMediaType = "text/event-stream"
	// Notification is the data of an event in a stream of notifications. There is only one kind of event.
	Notification = "bundle"
	// NotificationsAliveSeconds is the time without an event after which the publisher sends a comment. A longer
	// silence means that the connection is lost.
	NotificationsAliveSeconds = 30
)
