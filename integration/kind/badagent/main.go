// Command badagent replaces an agent with the worst kind of bad release: it reports that it is ready, and ends soon
// after, without counting its starts as an agent does.
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
