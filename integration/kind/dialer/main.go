// Command dialer runs in pods that test NetworkPolicies. It listens on TCP ports, or dials an address and prints the
// result.
package main

import (
	"fmt"
	"net"
	"os"
	"time"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == "dial" {
		fmt.Println(dial(os.Args[2]))
		return
	}
	if len(os.Args) > 2 && os.Args[1] == "listen" {
		fmt.Fprintln(os.Stderr, "dialer:", listen(os.Args[2:]))
		os.Exit(1)
	}
	fmt.Fprintln(os.Stderr, "usage: dialer dial HOST:PORT | dialer listen PORT...")
	os.Exit(2)
}

// dial tries to connect for two seconds, so that the kernel can retransmit a lost packet. If a NetworkPolicy forbids
// the connection, the result is a timeout or a reset.
func dial(address string) string {
	connection, err := net.DialTimeout("tcp", address, 2*time.Second)
	if err != nil {
		return "refuses"
	}
	connection.Close()
	return "answers"
}

// listen accepts all connections to the ports, and responds to one HTTP request. It returns only on an error.
func listen(ports []string) error {
	failed := make(chan error)
	for _, port := range ports {
		listener, err := net.Listen("tcp", ":"+port)
		if err != nil {
			return err
		}
		go func() {
			for {
				connection, err := listener.Accept()
				if err != nil {
					failed <- err
					return
				}
				go respond(connection)
			}
		}()
	}
	return <-failed
}

// respond reads the request first, because the kernel resets a connection that is closed with unread data.
func respond(connection net.Conn) {
	defer connection.Close()
	if connection.SetDeadline(time.Now().Add(time.Second)) != nil {
		return
	}
	if _, err := connection.Read(make([]byte, 4<<10)); err == nil {
		fmt.Fprint(connection, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	}
}
