//go:build linux && race

package generate_test

// The race detector takes several times the memory of what it watches: the text is held then, not the memory, and
// of a smaller record. CI runs the test once without it.
const longMegabytes, memoryHeld = 6, false
