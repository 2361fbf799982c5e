//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// detach puts the command into a process group of its own: a Ctrl-C on the terminal is for the client,
// which lets the running turns finish; the server has to be there for that.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
