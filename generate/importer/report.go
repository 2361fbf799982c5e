package importer

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
)

// maxProblems bounds the list of bad records in a report; the counts go on.
const maxProblems = 50

// Report is what became of the records of the sources: Read is Kept plus all of Skipped.
type Report struct {
	Read          int64            // records of the sources (elements, lines, rows)
	Kept          int64            // records that are in the conversations
	Skipped       map[string]int64 // records left out, by reason
	Conversations int64
	Turns         int64
	Problems      []Problem // the first records that were left out, and why
	Notes         []string  // what was done to the rest, such as parts joined, with an example each

	formats map[Format]struct{}
	noted   map[string]*noted
	several bool // several files are read
}

// noted is how often something was done, and where first.
type noted struct {
	n       int64
	example string
}

// leftOutFiles counts the files of a folder that are no datasets.
const leftOutFiles = "files of the folder left out"

// shapeNote counts records by their shape.
const shapeNote = "records of the shape "

// Format names what was read.
func (r *Report) Format() string {
	var names []string
	for _, f := range slices.Sorted(maps.Keys(r.formats)) {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}

// Problem is a record that was left out.
type Problem struct {
	Where
	Reason string // as in Skipped
	Detail string // what exactly; may be empty
}

func (p Problem) String() string {
	if p.Detail == "" {
		return fmt.Sprintf("%s: %s", p.Where, p.Reason)
	}
	return fmt.Sprintf("%s: %s: %s", p.Where, p.Reason, p.Detail)
}

// Where is a place in a source.
type Where struct {
	File   string
	Line   int64  // 0 where lines mean nothing
	Record int64  // from 1
	What   string // what a record is: record, row, line
}

func (w Where) String() string {
	what := w.What
	if what == "" {
		what = "record"
	}
	if w.Line > 0 {
		return fmt.Sprintf("%s:%d (%s %d)", w.File, w.Line, what, w.Record)
	}
	return fmt.Sprintf("%s: %s %d", w.File, what, w.Record)
}

// problem is why a record cannot be kept.
type problem struct {
	reason, detail string
	fatal          bool // not the record's fault: the import cannot go on
}

func (p *problem) String() string {
	if p.detail == "" {
		return p.reason
	}
	return p.reason + ": " + p.detail
}

func because(reason string) *problem { return &problem{reason: reason} }

func badRecord(format string, args ...any) *problem {
	return &problem{reason: "bad record", detail: fmt.Sprintf(format, args...)}
}

func fatal(err error) *problem { return &problem{reason: err.Error(), fatal: true} }

func (r *Report) skip(w Where, p *problem, records int64) {
	r.Skipped[p.reason] += records
	if len(r.Problems) < maxProblems {
		detail := p.detail
		if len(detail) > 300 {
			detail = detail[:300] + "..."
		}
		r.Problems = append(r.Problems, Problem{Where: w, Reason: p.reason, Detail: detail})
	}
}

// note counts what was done to the records that are kept, and keeps the first example.
func (r *Report) note(what string, n int64, example string) {
	if r.noted[what] == nil {
		r.noted[what] = &noted{example: example}
	}
	r.noted[what].n += n
}

// clone gives the report as it is now. Which files were read is told only where there were several.
func (r *Report) clone() *Report {
	c := &Report{Read: r.Read, Kept: r.Kept, Conversations: r.Conversations, Turns: r.Turns,
		Skipped: maps.Clone(r.Skipped), Problems: slices.Clone(r.Problems), formats: r.formats}
	shapes := 0
	for what := range r.noted {
		if strings.HasPrefix(what, shapeNote) {
			shapes++
		}
	}
	for _, what := range slices.Sorted(maps.Keys(r.noted)) {
		n := r.noted[what]
		if strings.HasPrefix(what, "files read as ") && !r.several || strings.HasPrefix(what, shapeNote) && shapes == 1 {
			continue
		}
		text := fmt.Sprintf("%s: %d", what, n.n)
		if n.example != "" {
			text += fmt.Sprintf(" (%s)", n.example)
		}
		c.Notes = append(c.Notes, text)
	}
	return c
}

// idSet makes identifiers unique. It keeps a hash of each instead of the text itself: two with the same hash
// would only be renamed.
type idSet map[uint64]uint32 // how often an identifier came, or was given

// idSeed is one for all, so that the same hash is the same identifier within a process; what is written
// never depends on it but in a collision of 64 bits.
var idSeed = maphash.MakeSeed()

// unique gives the identifier as it is the first time, and later with "#" and how often it came. Should
// the source itself have such an identifier, the count goes on until it has none.
func (s idSet) unique(id string) string {
	h := maphash.String(idSeed, id)
	n := s[h] + 1
	try := id
	for n > 1 {
		try = fmt.Sprintf("%s#%d", id, n)
		if given := maphash.String(idSeed, try); s[given] == 0 {
			s[given] = 1
			break
		}
		n++
	}
	s[h] = n
	return try
}
