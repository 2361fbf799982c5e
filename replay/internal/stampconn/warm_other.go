//go:build !linux

package stampconn

import (
	"errors"
	"net"
)

func stamped(*net.UDPConn) (bool, error) { return false, errors.ErrUnsupported }
