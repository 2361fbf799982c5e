package schemas

import "unicode"

// Unprintable says whether a character of a text that is not ours (a file's, a server's) must not reach a
// terminal or a document as it is: control characters, which a terminal obeys, characters that turn the
// direction of text, and the line ends that are none to most programs.
func Unprintable(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

// ProbeText stands in the prompts by which a replay finds out what a server takes before its load, so that a recording can
// tell them from those of an application.
const ProbeText = "Read this list and then follow the last line."
