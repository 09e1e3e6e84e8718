// Command badagent replaces an agent with the worst kind of bad release. It reports ready and ends soon after, and it
// does not count its starts like an agent.
package main

import (
	"log"
	"net/http"
	"time"
)

func main() {
	go func() {
		ready := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		log.Fatal(http.ListenAndServe(":8081", ready))
	}()
	time.Sleep(time.Second) // well below minReadySeconds of the chart, also on a busy node
	log.Fatal("this release of the agent is bad")
}
