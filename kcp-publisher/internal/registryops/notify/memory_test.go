package notify

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/registryops/token"
)

// envClients is the name of an environment variable. If it is set, the test binary runs as a test's clients. The value
// contains the number of clients, the server's address, and whether to use TLS.
const envClients = "KYMA_PULL_TEST_CLIENTS"

func TestMain(m *testing.M) {
	if clients := os.Getenv(envClients); clients != "" {
		if err := runClients(clients); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runClients connects the clients, prints "connected", prints "notified" once each client has a notification, and ends
// when its standard input closes.
func runClients(description string) error {
	var count int
	var address string
	var secured bool
	if _, err := fmt.Sscan(description, &count, &address, &secured); err != nil {
		return err
	}
	readers := make([]*bufio.Reader, count)
	next, failed := make(chan int), make(chan error, 1)
	var group sync.WaitGroup
	for range 32 {
		group.Go(func() {
			for i := range next {
				reader, err := runClient(address, fmt.Sprintf("r-%d", i), secured)
				if err != nil {
					select {
					case failed <- err:
					default:
					}
					continue
				}
				readers[i] = reader
			}
		})
	}
	for i := range count {
		next <- i
	}
	close(next)
	group.Wait()
	select {
	case err := <-failed:
		return err
	default:
	}
	fmt.Println("connected")
	for _, reader := range readers {
		group.Go(func() {
			for line := ""; !strings.HasPrefix(line, "data:"); {
				line, _ = reader.ReadString('\n')
			}
		})
	}
	group.Wait()
	fmt.Println("notified")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return nil
}

func runClient(address, id string, secured bool) (*bufio.Reader, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	if secured {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
	}
	request, err := http.NewRequest(http.MethodGet, "http://"+address+bundle.NotificationsPath, nil)
	if err != nil {
		return nil, err
	}
	password, err := token.Password(secret, id, 1)
	if err != nil {
		return nil, err
	}
	request.SetBasicAuth(id, password)
	if err := request.Write(conn); err != nil {
		return nil, err
	}
	reader := bufio.NewReaderSize(conn, 256)
	answer, err := http.ReadResponse(reader, nil)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", id, answer.Status)
	}
	return reader, nil
}

func usage(t testing.TB) (heap, rss int64) {
	t.Helper()
	runtime.GC()
	debug.FreeOSMemory()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	if _, err := fmt.Sscan(rest, &rss); err != nil {
		t.Fatal(err)
	}
	return int64(stats.HeapInuse + stats.StackInuse), rss << 10
}

// costs is the cost of idle connections for a server.
type costs struct {
	heap, rss  int64
	goroutines float64
	// delivered is the time to notify all clients.
	delivered time.Duration
}

// memoryOf measures the memory of a server with idle connections. The clients run in another process, so their memory
// is not included.
func memoryOf(t testing.TB, count int, secured bool) costs {
	t.Helper()
	e := start(t, count, secured)
	heap, rss := usage(t)
	goroutines := runtime.NumGoroutine()
	clients := exec.CommandContext(t.Context(), os.Args[0])
	clients.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s %v", envClients, count, e.address, secured))
	input, err := clients.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := clients.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := clients.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	wait := func(want string) {
		t.Helper()
		if lines.Scan(); lines.Text() != want {
			t.Fatalf("the clients printed %q, want %q", lines.Text(), want)
		}
	}
	wait("connected")
	for deadline := time.Now().Add(2 * time.Minute); runtime.NumGoroutine() > goroutines+
		10; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines for %d idle connections", runtime.NumGoroutine()-goroutines, count)
		}
	}
	busyHeap, busyResident := usage(t)
	per := costs{
		heap: (busyHeap - heap) / int64(count), rss: (busyResident - rss) / int64(count),
		goroutines: float64(runtime.NumGoroutine()-goroutines) / float64(count),
	}
	began := time.Now()
	for i := range count {
		e.Notify(fmt.Sprintf("r-%d", i))
	}
	wait("notified")
	per.delivered = time.Since(began)
	_ = input.Close()
	if err := clients.Wait(); err != nil {
		t.Error(err)
	}
	return per
}

// 10,000 connections must fit into 150 MB.
func TestIdleConnectionUsesLittleMemory(t *testing.T) {
	const count, budget = 1000, 15_000
	for _, secured := range []bool{false, true} {
		per := memoryOf(t, count, secured)
		t.Logf("TLS %v: %d bytes of heap and stacks, %d resident, %.3f goroutines for each connection; all notified "+
			"after %s",
			secured, per.heap, per.rss, per.goroutines, per.delivered)
		if per.heap > budget {
			t.Errorf("TLS %v: got %d bytes for each connection, want at most %d", secured, per.heap, budget)
		}
	}
}

// One iteration is sufficient, so run it with -benchtime 1x.
func BenchmarkTenThousandConnections(b *testing.B) {
	for _, secured := range []bool{false, true} {
		b.Run(fmt.Sprintf("TLS=%v", secured), func(b *testing.B) {
			for b.Loop() {
				per := memoryOf(b, 10_000, secured)
				b.ReportMetric(float64(per.heap), "heap-B/conn")
				b.ReportMetric(float64(per.rss), "RSS-B/conn")
				b.ReportMetric(float64(per.delivered.Milliseconds()), "notified-ms")
			}
		})
	}
}
