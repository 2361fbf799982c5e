//go:build unix

package wire

import (
	"context"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"parley/schemas"
)

func TestCheckLimits(t *testing.T) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	if l.Cur < l.Max-1 {
		t.Fatalf("the soft limit is %d, not raised to %d", l.Cur, l.Max)
	}
	if err := CheckLimits(int(l.Max) / 2); err != nil {
		t.Fatalf("half of the hard limit: %v", err)
	}
	if err := CheckLimits(1 << 40); err == nil || !strings.Contains(err.Error(), "RLIMIT_NOFILE") {
		t.Fatalf("more than the hard limit: %v", err)
	}
}

func TestCheckPorts(t *testing.T) {
	if _, _, ok := localPorts(); !ok {
		t.Skip("the range of local ports is not known here")
	}
	c := newClient(t, options("http://127.0.0.1:9"))
	if err := c.CheckPorts(100); err != nil {
		t.Fatal(err)
	}
	if err := c.CheckPorts(70000); err == nil || !strings.Contains(err.Error(), "ip_local_port_range") {
		t.Fatalf("70,000 connections to one address: %v", err)
	}
}

// Running out of files is its own kind, and the load goes on afterwards.
func TestOutOfFiles(t *testing.T) {
	addr := "127.0.0.1:9"
	c := newClient(t, options("http://"+addr))
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	low := before
	low.Cur = 3
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Skip(err)
	}
	row, _ := turn(t, c, context.Background(), TurnRequest{})
	unix.Setrlimit(unix.RLIMIT_NOFILE, &before)
	expect(t, row, schemas.StatusTransportError, KindFDLimit)
}
