//go:build unix

package simserver

import "golang.org/x/sys/unix"

// raiseFileLimit raises the limit of open files: the hard limit where the process may, and the soft limit
// to it. The runtime has raised the soft one already; failing changes nothing.
func raiseFileLimit() {
	const want = 1 << 20
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil || l.Cur >= want {
		return
	}
	if unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: want, Max: want}) != nil {
		l.Cur = l.Max
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &l)
	}
}
