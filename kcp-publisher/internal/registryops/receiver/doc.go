// Package receiver accepts the notifications that distribution, zot and Harbor send after a push. It takes a request
// and returns the names of runtimes that may have reported.
//
// A notification is untrusted, even with a valid token. The receiver only reads the names of repositories, and the
// publisher only polls the named runtimes earlier. It verifies their reports as usual. Lost, forged or repeated
// notifications have no other effect: polling continues, and Reads limits the rate of reads.
package receiver
