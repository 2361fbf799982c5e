package wire

import (
	"fmt"
	"os"
)

// localPorts gives the range of local ports that connections get.
func localPorts() (low, high int, ok bool) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0, 0, false
	}
	n, err := fmt.Sscan(string(text), &low, &high)
	return low, high, err == nil && n == 2 && low > 0 && high >= low
}
