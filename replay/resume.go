package replay

import (
	"fmt"

	"parley/schemas"
)

// resumed is what an interrupted run left: which turns have rows. A nil *resumed is a run from the
// beginning.
//
// A resumed run sends no turn again that has a row. A conversation that was under way goes on with the
// first turn that has none; its history holds the answers of the interrupted run where that saved them
// (--save-text), else the recorded ones, since the server's own are gone. A conversation whose last turn
// had failed does not go on (unless the run keeps going past failures).
type resumed struct {
	meta  *schemas.RunMeta
	convs map[instanceKey]*progressOf
	rows  int64
	sent  int64 // turns that were started
	last  int64 // the last moment that a row has
}

type instanceKey struct {
	id       string
	instance int64
}

type progressOf struct {
	turns   int  // turns that have rows, from the first on
	failed  bool // the last of them ended badly
	answers []*string
}

func newResumed(meta *schemas.RunMeta) *resumed {
	return &resumed{meta: meta, convs: map[instanceKey]*progressOf{}}
}

// readResumed reads the journal of an interrupted run, and counts its rows.
func readResumed(dir string, t *tally) (*resumed, error) {
	meta, err := schemas.JournalMeta(dir)
	if err != nil {
		return nil, err
	}
	r := newResumed(meta)
	state, err := schemas.ReadJournal(dir, func(rows []schemas.Request) error {
		r.add(rows, t)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if state.Finished {
		return nil, fmt.Errorf("%s is the journal of a run that ended by itself: there is nothing to resume", dir)
	}
	return r, nil
}

// add takes rows of the interrupted run.
func (r *resumed) add(rows []schemas.Request, t *tally) {
	for i := range rows {
		row := &rows[i]
		r.rows++
		t.add(row)
		status := schemas.Status(row.Status)
		if status.Sent() {
			r.sent++
		}
		for _, m := range []*int64{row.DoneNS, row.SentNS, row.StartNS, row.ReadyNS} {
			if m != nil {
				r.last = max(r.last, *m)
			}
		}
		key := instanceKey{row.ConversationID, row.Instance}
		p := r.convs[key]
		if p == nil {
			p = &progressOf{}
			r.convs[key] = p
		}
		p.turns = max(p.turns, int(row.Turn)+1)
		p.failed = status != schemas.StatusOK
		if row.Text != nil {
			for len(p.answers) <= int(row.Turn) {
				p.answers = append(p.answers, nil)
			}
			text := *row.Text
			p.answers[row.Turn] = &text
		}
	}
}

func (r *resumed) of(c *conversation) *progressOf {
	if r == nil {
		return nil
	}
	return r.convs[instanceKey{c.id, c.instance}]
}

// first gives the first turn of a conversation that has no row, 0 if it was not begun.
func (r *resumed) first(c *conversation) int {
	if p := r.of(c); p != nil {
		return min(p.turns, len(c.turns))
	}
	return 0
}

// answers gives the saved answers of a conversation's turns that have rows, one for each.
func (r *resumed) answers(c *conversation) []*string {
	p := r.of(c)
	if p == nil {
		return nil
	}
	out := make([]*string, p.turns)
	copy(out, p.answers)
	return out
}

// over says whether an interrupted run is done with a conversation. One that failed gets the rows of its
// remaining turns here.
func (r *resumed) over(e *engine, en entry, source *schemas.Conversation) bool {
	if r == nil {
		return false
	}
	p := r.convs[instanceKey{source.ConversationID, en.instance}]
	if p == nil {
		return false
	}
	if p.turns >= len(source.Turns) {
		return true
	}
	if !p.failed || e.cfg.KeepGoing {
		return false
	}
	c := e.outline(en, *source)
	c.first, c.next = p.turns, p.turns
	e.plan(c)
	c.rest(schemas.StatusNotReached, kindFailed, "the last turn before the run was interrupted had failed", nil)
	return true
}

// resumeKids starts the conversations that one which is over had started, as far as they are not over
// themselves; those that it had not started get their rows.
func (e *engine) resumeKids(en entry, source *schemas.Conversation) {
	if e.resumed == nil {
		return
	}
	p := e.resumed.convs[instanceKey{source.ConversationID, en.instance}]
	for _, row := range e.x.children[en.row] {
		rd := &reader{x: e.x}
		kid, err := rd.read(row)
		rd.close()
		if err != nil {
			e.failRun(err)
			return
		}
		child := en
		child.row = row
		switch {
		case e.resumed.over(e, child, &kid):
			e.resumeKids(child, &kid)
		case p != nil && e.x.parents[row].turn < p.turns:
			c := e.child(en, row, kid)
			if !e.hasBegun() {
				e.held = append(e.held, c)
				continue
			}
			c.due = e.clk.Now()
			e.spawn(c)
		default:
			e.unreached(row, en, kindParent)
		}
	}
}

// spent gives how long the interrupted run had gone on.
func (r *resumed) spent() (d int64) {
	if r == nil {
		return 0
	}
	return r.last
}
