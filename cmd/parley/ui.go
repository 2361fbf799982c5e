package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// ui is what a person sees on stderr: notes, and on a terminal a progress line that is redrawn in place.
// It never writes to stdout, which is the result.
type ui struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	width    func() int
	line     string // the progress line that is on the screen
}

func newUI(w io.Writer, plain bool) *ui {
	u := &ui{w: w}
	if f, ok := w.(*os.File); ok && !plain && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd())) {
		u.terminal = true
		u.width = func() int {
			if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
				return width
			}
			return 80
		}
	}
	return u
}

// note prints a line that stays.
func (u *ui) note(format string, args ...any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.erase()
	fmt.Fprintln(u.w, "parley:", clean(fmt.Sprintf(format, args...)))
}

// progress redraws the progress line. Off a terminal it does nothing.
func (u *ui) progress(text string) {
	if !u.terminal {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	text = clean(text)
	if width := u.width() - 1; utf8.RuneCountInString(text) > width {
		text = string([]rune(text)[:max(width, 0)])
	}
	u.erase()
	u.line = text
	fmt.Fprint(u.w, text)
}

// done removes the progress line and leaves the terminal as it was.
func (u *ui) done() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.erase()
}

func (u *ui) erase() {
	if u.line != "" {
		fmt.Fprint(u.w, "\r\x1b[K")
		u.line = ""
	}
}

// clean takes control characters out of a text for the terminal: file names, model names and servers'
// messages are not ours, and must not move the cursor or change the colours.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' {
			return ' '
		}
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return '\uFFFD'
		}
		return r
	}, text)
}

// isTerminal says whether a stream is one.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
