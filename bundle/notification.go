package bundle

// The publisher sends a server-sent event when a new bundle may exist for a runtime. The agent does not trust
// notifications: a notification only makes it poll the registry earlier.
//
// Source: HTML Living Standard, section 9.2, "Server-sent events".
const (
	// NotificationsPath is the path of the publisher's notification endpoint. The user name of the request is the
	// runtime ID.
	NotificationsPath = "/notifications"
	// NotificationsMediaType is the media type of the response, which is an endless stream.
	NotificationsMediaType = "text/event-stream"
	// Notification is the data of every event in the stream.
	Notification = "bundle"
	// NotificationsAliveSeconds is the time without an event after which the publisher sends a comment to keep the
	// connection alive.
	NotificationsAliveSeconds = 30
)
