//go:build !unix

package simserver

// raiseFileLimit does nothing where there is no such limit.
func raiseFileLimit() {}
