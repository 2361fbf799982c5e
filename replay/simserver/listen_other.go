//go:build !linux

package simserver

import "syscall"

// writeNow has nothing to choose here.
func writeNow(_, _ string, _ syscall.RawConn) error { return nil }
