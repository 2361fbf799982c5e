package importer

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
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

// idSet makes identifiers unique. It keeps 8 bytes for each instead of the identifier, in a table with
// linear probing that takes a third of the memory of a map; two different identifiers with the same hash
// would only be renamed.
type idSet struct {
	table []uint64 // hashes, 0 where none is; its length is a power of two
	n     int
}

// idSeed is one for all, so that the same hash is the same identifier within a process; what is written
// never depends on it but in a collision of 64 bits.
var idSeed = maphash.MakeSeed()

func (s *idSet) unique(id string) string {
	try := id
	for n := 2; ; n++ {
		if s.add(max(1, maphash.String(idSeed, try))) {
			return try
		}
		try = fmt.Sprintf("%s#%d", id, n)
	}
}

// add takes a hash in, and says whether it is new.
func (s *idSet) add(h uint64) bool {
	if 4*(s.n+1) > 3*len(s.table) {
		old := s.table
		s.table = make([]uint64, max(1024, 2*len(old)))
		for _, h := range old {
			if h != 0 {
				*s.place(h) = h
			}
		}
	}
	at := s.place(h)
	if *at == h {
		return false
	}
	*at = h
	s.n++
	return true
}

// place gives where a hash is, or where it belongs.
func (s *idSet) place(h uint64) *uint64 {
	mask := uint64(len(s.table) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		if s.table[i] == 0 || s.table[i] == h {
			return &s.table[i]
		}
	}
}
