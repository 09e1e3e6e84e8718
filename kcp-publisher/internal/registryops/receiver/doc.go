// Package receiver takes the notifications that registries send when something was pushed: distribution's, zot's and
// Harbor's. A request goes in, the names of runtimes that may have reported come out.
//
// A notification is a stranger's word, with whatever token it comes. Only the name of a repository is taken from it,
// and all that follows is that the publisher looks at that runtime now instead of at its next poll. What it finds there
// is verified as ever. Notifications that are lost, forged or repeated change nothing else: the poll goes on beside
// them, and Looks bounds how often they count.
package receiver
