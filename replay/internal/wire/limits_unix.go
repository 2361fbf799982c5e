//go:build unix

package wire

import "golang.org/x/sys/unix"

// fileLimit gives how many files the process may open.
func fileLimit() (uint64, error) {
	var l unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l)
	return uint64(l.Cur), err
}
