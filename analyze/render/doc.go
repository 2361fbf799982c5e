// Package render prints results of package analyze. It computes nothing: what is not in the result is not
// printed. A result is laid out as a [Document], which terminal, Markdown and the HTML report (package report) print
// with the same words and digits; the short form leaves out what the document marks as detail. JSON and CSV have the
// exact numbers. Every string that comes from a file (labels, tags, error texts) loses its control characters before it
// reaches a terminal or a page.
package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"parley/analyze"
	"parley/schemas"
)

// Format is a way to print a result.
type Format string

// The formats. What vllm bench serve saves needs the rows too: see analyze.VLLMResults.
const (
	Text     Format = "table"
	JSON     Format = "json"
	CSV      Format = "csv"
	Markdown Format = "markdown"
)

// Options is how to print.
type Options struct {
	Detail bool   // the long form, of table and markdown: everything
	Color  bool   // mark answers with terminal colours; of table
	Width  int    // columns of the terminal; 0: 80
	More   string // what the last line of the short form tells to ask for
}

// Write prints a result.
func Write(w io.Writer, format Format, res *analyze.Result, o Options) error {
	switch format {
	case Text:
		return New(res).writeText(w, o)
	case Markdown:
		return New(res).writeMarkdown(w, o)
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

// clean cleans every string of a document.
func (d *Document) clean() {
	d.Notices = slices.Clone(d.Notices) // the result's own
	list := func(texts []string) {
		for i := range texts {
			texts[i] = clean(texts[i])
		}
	}
	list(d.Notices)
	for i := range d.Tables {
		t := &d.Tables[i]
		t.Title, t.Answer, t.Say = clean(t.Title), clean(t.Answer), clean(t.Say)
		list(t.Notes)
		for j, r := range t.Points {
			t.Points[j] = Point{clean(r.Word), r.Mark, clean(r.Text), clean(r.Advice)}
		}
		for j := range t.Columns {
			t.Columns[j].Name = clean(t.Columns[j].Name)
		}
		for j := range t.Rows {
			t.Rows[j].Of = clean(t.Rows[j].Of)
			for k := range t.Rows[j].Cells {
				c := &t.Rows[j].Cells[k]
				c.Text, c.Hint, c.Unit = clean(c.Text), clean(c.Hint), clean(c.Unit)
			}
		}
	}
}
