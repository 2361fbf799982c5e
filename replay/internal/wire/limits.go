package wire

import (
	"fmt"
	"net"
)

// CheckLimits tells by an error that names the process's limit of open files whether n connections at once, with some
// files beside them, do not fit. The Go runtime has raised the limit as far as it may.
func CheckLimits(n int) error {
	const others = 64 // the dataset, the journal, the runtime's own, telemetry
	most, err := fileLimit()
	if err != nil {
		return fmt.Errorf("reading the limit of open files: %w", err)
	}
	if most < uint64(n)+others {
		return fmt.Errorf("%d connections at once need about %d open files, but the process may open %d (RLIMIT_NOFILE): raise the hard limit (ulimit -Hn, or LimitNOFILE= of the service), or lower the concurrency", n, n+others, most)
	}
	return nil
}

// CheckPorts tells by an error whether n connections at once to the target are more than the local ports of
// one address allow (Linux; elsewhere and for Unix sockets the answer is nil).
func (c *Client) CheckPorts(n int) error {
	if c.target.network != "tcp" || c.o.Dial != nil || c.useHTTP.Load() {
		return nil
	}
	low, high, ok := localPorts()
	if !ok {
		return nil
	}
	// A name may stand for several addresses, each of which has all ports.
	host, _, _ := net.SplitHostPort(c.target.address)
	if net.ParseIP(host) == nil && host != "localhost" {
		return nil
	}
	if ports := high - low + 1; n > ports {
		return fmt.Errorf("%d connections at once to %s are more than the %d local ports (net.ipv4.ip_local_port_range is %d to %d): widen the range, lower the concurrency, or give the server under several addresses", n, c.target.address, ports, low, high)
	}
	return nil
}
