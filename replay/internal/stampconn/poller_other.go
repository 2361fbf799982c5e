//go:build !linux

package stampconn

import (
	"errors"
	"time"
)

// Poller is for Linux.
type Poller struct{}

// NewPoller fails: there is no such poller on this system.
func NewPoller() (*Poller, error) { return nil, errors.ErrUnsupported }

func (*Poller) Close() error                { return nil }
func (*Poller) Take(*Conn) (*Polled, error) { return nil, errors.ErrUnsupported }

// Polled is for Linux.
type Polled struct{}

func (*Polled) Start(func(p []byte, unixNS int64, kernel bool) bool) {}
func (*Polled) Stop()                                                {}
func (*Polled) Wait() error                                          { return errors.ErrUnsupported }
func (*Polled) Loop(func(p []byte, unixNS int64, kernel bool) bool) error {
	return errors.ErrUnsupported
}
func (*Polled) WriteBuffers([][]byte, func()) (int64, error) { return 0, errors.ErrUnsupported }
func (*Polled) SetDeadline(time.Time) error                  { return errors.ErrUnsupported }
func (*Polled) Alive(bool) bool                              { return false }
func (*Polled) Close() error                                 { return errors.ErrUnsupported }
