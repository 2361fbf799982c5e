//go:build unix

package wire

import "golang.org/x/sys/unix"

// raiseFiles raises the soft limit of open files to the hard one if fewer than want are allowed, and gives
// the limit that holds.
func raiseFiles(want uint64) (uint64, error) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0, err
	}
	if uint64(l.Cur) < want && l.Cur < l.Max {
		raised := l
		raised.Cur = l.Max
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &raised); err == nil {
			l = raised
		}
	}
	return uint64(l.Cur), nil
}
