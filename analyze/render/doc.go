// Package render prints results of package analyze. It computes nothing: what is not in the result is not
// printed. Every string that comes from a file (labels, tags, error texts) loses its control characters
// before it reaches a terminal or a document.
package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"parley/analyze"
	"parley/schemas"
)

// Format is a way to print a result.
type Format string

// The formats. What vllm bench serve saves needs the rows too: see analyze.VLLMResults.
const (
	Table    Format = "table"
	JSON     Format = "json"
	CSV      Format = "csv"
	Markdown Format = "markdown"
)

// Options is how to print.
type Options struct {
	Color bool // mark the verdict with terminal colours; for terminals only
}

// Write prints a result.
func Write(w io.Writer, format Format, res *analyze.Result, o Options) error {
	switch format {
	case Table:
		return writeTable(w, res, o)
	case Markdown:
		return writeMarkdown(w, res)
	case CSV:
		return writeCSV(w, res)
	case JSON:
		text, err := json.MarshalIndent(res, "", "  ")
		if err != nil {
			return err
		}
		_, err = w.Write(append(escaped(text), '\n'))
		return err
	}
	return fmt.Errorf("there is no format %q: choose table, json, csv or markdown", format)
}

// escaped writes as escapes what JSON allows in a string as it is, and a terminal would obey: the control
// characters from U+007F on, and those that turn the direction of text. The data is the same.
func escaped(text []byte) []byte {
	isUnsafe := func(r rune) bool { return r >= 0x7f && schemas.Unprintable(r) }
	if bytes.IndexFunc(text, isUnsafe) < 0 {
		return text
	}
	var b bytes.Buffer
	for _, r := range string(text) {
		if isUnsafe(r) {
			fmt.Fprintf(&b, "\\u%04x", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}

// clean makes a string from a file safe to print: control characters, which a terminal would obey, and
// characters that turn the direction of text are shown as their codes.
func clean(s string) string {
	if strings.IndexFunc(s, schemas.Unprintable) < 0 && strings.ToValidUTF8(s, "") == s {
		return s
	}
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(s, "\uFFFD") {
		if schemas.Unprintable(r) {
			fmt.Fprintf(&b, "\\u%04x", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
