//go:build linux && !race

package generate_test

// See race_on_test.go.
const longMegabytes, memoryHeld = 60, true
