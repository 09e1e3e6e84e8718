// Command badagent replaces an agent with the worst kind of bad release. It reports ready and ends soon after. Unlike
// an agent, it does not count its starts, so it cannot roll itself back.
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
	time.Sleep(time.Second) // much shorter than the chart's minReadySeconds, also on a busy node
	log.Fatal("this release of the agent is bad")
}
