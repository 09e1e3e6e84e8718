// Command badagent simulates a bad release of the agent: it becomes ready and crashes a second later. It does not
// count its starts, so it cannot roll itself back.
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
	time.Sleep(time.Second) // much shorter than the chart's minReadySeconds, even on a busy node
	log.Fatal("this release of the agent is bad")
}
