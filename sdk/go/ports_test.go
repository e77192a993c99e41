package worker

import (
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
)

// Each process owns blocks of ports. It listens at the first port of each block for as long as it lives, so that no other process takes
// a port from there: crates/servers/src/ports.rs says more.
const (
	portsFirst = 12_000
	portsBlock = 20
	portBlocks = 1_000
)

var ports struct {
	sync.Mutex
	guards []net.Listener
	rest   []int
}

// freePort is one where nobody listens.
func freePort(t *testing.T) int {
	t.Helper()
	ports.Lock()
	defer ports.Unlock()
	for {
		if len(ports.rest) == 0 {
			claimPorts(t)
		}
		port := ports.rest[0]
		ports.rest = ports.rest[1:]
		if probe, err := listen(port); err == nil {
			probe.Close()
			return port
		}
	}
}

func claimPorts(t *testing.T) {
	t.Helper()
	for n := 0; n < portBlocks; n++ {
		first := portsFirst + (os.Getpid()*7+n)%portBlocks*portsBlock
		guard, err := listen(first)
		if err != nil {
			continue
		}
		ports.guards = append(ports.guards, guard)
		for port := first + 1; port < first+portsBlock; port++ {
			ports.rest = append(ports.rest, port)
		}
		return
	}
	t.Fatal("no block of ports is free")
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
}
