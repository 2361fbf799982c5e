package importer

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// maxProblems bounds the list of bad records in a report; the counts go on.
const maxProblems = 50

// Report is what became of the records of a source: Read is Kept plus all of Skipped.
type Report struct {
	Source        string
	Format        Format
	Read          int64            // records of the source (elements, lines, rows)
	Kept          int64            // records that are in the conversations
	Skipped       map[string]int64 // records left out, by reason
	Conversations int64
	Turns         int64
	Problems      []Problem // the first records that were left out, and why
	Notes         []string  // what was done to the rest, such as parts joined

	noted map[string]int64
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

func (r *Report) note(what string, n int64) {
	if n > 0 {
		r.noted[what] += n
	}
}

func (r *Report) clone() Report {
	c := *r
	c.Skipped = maps.Clone(r.Skipped)
	c.Problems = slices.Clone(r.Problems)
	c.Notes = slices.Clone(r.Notes)
	for _, what := range slices.Sorted(maps.Keys(r.noted)) {
		c.Notes = append(c.Notes, fmt.Sprintf("%s: %d", what, r.noted[what]))
	}
	c.noted = nil
	return c
}

// idSet makes identifiers unique. It keeps a hash of 8 bytes for each different one instead of the text
// itself; two with the same hash would only be renamed.
type idSet struct {
	seen map[uint64]uint32 // how often the identifier came
}

// idSeed is one for all, so that the same hash is the same identifier within a process; what is written
// never depends on it but in a collision of 64 bits.
var idSeed = maphash.MakeSeed()

// given says whether an identifier may have been made up for an earlier record.
func (s *idSet) given(id string) bool {
	i := strings.LastIndexByte(id, '#')
	if i < 0 {
		return false
	}
	n, err := strconv.ParseUint(id[i+1:], 10, 32)
	return err == nil && n >= 2 && uint64(s.seen[maphash.String(idSeed, id[:i])]) >= n
}

// unique gives the identifier as it is the first time, and later with "#" and how often it came. Should
// the source itself have such an identifier, the count goes on until it has none.
func (s *idSet) unique(id string) string {
	if s.seen == nil {
		s.seen = map[uint64]uint32{}
	}
	h := maphash.String(idSeed, id)
	if s.seen[h]++; s.seen[h] == 1 {
		if !s.given(id) {
			return id
		}
		s.seen[h]++
	}
	for {
		try := fmt.Sprintf("%s#%d", id, s.seen[h])
		if _, taken := s.seen[maphash.String(idSeed, try)]; !taken {
			return try
		}
		s.seen[h]++
	}
}
