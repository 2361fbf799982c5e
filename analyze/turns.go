package analyze

import (
	"context"
	"errors"
	"slices"

	"parley/schemas"
)

// Turn is one turn as layouts of other programs tell it, each by formulas of its own. Moments are nanoseconds from
// the run's origin; a moment that never came and a count that is not known are [schemas.NullInt].
type Turn struct {
	Conversation string
	Instance     int64 // which copy of the conversation
	Session      int32 // numbers conversation instances, from 0
	Turn         int64 // index in its conversation
	Stage        int64 // of the load
	RequestID    string

	Status     schemas.Status
	Error      string // what kind of failure, in one word
	Message    string // the failure in words
	HTTPStatus int64

	Scheduled, Start, Sent, FirstByte, FirstToken, LastToken, Done int64

	Prompt, Cached, Completion, Reasoning int64 // tokens
	Hidden                                int64 // reasoning tokens that were counted and never streamed; 0 if none
	Burst                                 bool  // the answer came in one piece or in bursts: no time per token can be said

	ChunkNS     []int64 // of completed turns: arrival of each token-bearing chunk
	ChunkTokens []int64 // tokens of each; empty where the server does not say
}

var turnColumns = []string{"request_id", "error_message", "http_status", "first_byte_ns"}

// Turns gives the turns of the main phase of run i that were sent in its window, in the order of its files. It goes
// after [Analyze] with the same options. With chunks, completed turns have their chunk lists, unless the run has so
// many chunks that its gaps are counted only; listed says whether they have.
func (r *Runs) Turns(ctx context.Context, i int, o Options, chunks bool) (turns []Turn, listed bool, err error) {
	o = o.withDefaults()
	run := r.list[i]
	f, err := run.read(ctx, slices.Concat(neededColumns(&o), turnColumns))
	if err != nil {
		return nil, false, err
	}
	w, _, err := findWindow(run, f, o.Window)
	if err != nil {
		return nil, false, err
	}
	text := func(name string) func(row int) string {
		v := f.strs(name)
		return func(row int) string {
			if c := v.Codes[row]; c >= 0 {
				return v.Values[c]
			}
			return ""
		}
	}
	conversation, request, kind, message := text("conversation_id"), text("request_id"), text("error_kind"), text("error_message")
	instance, stage, status := f.ints("instance"), f.ints("stage"), f.ints("http_status")
	scheduled, start, sent, byte1 := f.ints("scheduled_ns"), f.ints("start_ns"), f.ints("sent_ns"), f.ints("first_byte_ns")
	first, last, done := f.ints("first_token_ns"), f.ints("last_token_ns"), f.ints("done_ns")
	prompt, cached, completion, reasoning := f.ints("prompt_tokens"), f.ints("cached_tokens"), f.ints("completion_tokens"), f.ints("reasoning_tokens")
	var rows []int
	for row := range f.rows {
		if !f.main[row] || start[row] == schemas.NullInt || !w.holds(f, row) {
			continue
		}
		rows = append(rows, row)
		turns = append(turns, Turn{
			Conversation: conversation(row), Instance: instance[row], Session: f.conv[row], Turn: int64(f.turn[row]), Stage: stage[row], RequestID: request(row),
			Status: schemas.Statuses[f.status[row]], Error: kind(row), Message: message(row), HTTPStatus: status[row],
			Scheduled: scheduled[row], Start: start[row], Sent: sent[row], FirstByte: byte1[row], FirstToken: first[row], LastToken: last[row], Done: done[row],
			Prompt: prompt[row], Cached: cached[row], Completion: completion[row], Reasoning: reasoning[row],
			Hidden: f.hidden(row), Burst: run.chunks != nil && run.chunks.burst[row],
		})
	}
	if n, err := run.chunkCount(f); err != nil || f.err != nil || !chunks || n > exactGaps {
		return turns, false, errors.Join(f.err, err)
	}
	return turns, true, run.readLists(ctx, func(_, firstRow int, shiftNS int64, l *schemas.Lists) error {
		at, _ := slices.BinarySearch(rows, firstRow)
		for ; at < len(rows) && rows[at] < firstRow+l.Rows(); at++ { // every row is in one batch only
			t := &turns[at]
			if t.Status != schemas.StatusOK {
				continue
			}
			ns, counts := l.Row(rows[at] - firstRow)
			t.ChunkNS, t.ChunkTokens = slices.Clone(ns), slices.Clone(counts)
			for c := range t.ChunkNS {
				t.ChunkNS[c] += shiftNS
			}
		}
		return nil
	})
}

// FirstChunkTokens gives the tokens of the first token-bearing chunk: the server's count where it sent one with each
// chunk, else 1.
func (t *Turn) FirstChunkTokens() int64 {
	if len(t.ChunkTokens) > 0 && t.ChunkTokens[0] > 0 {
		return t.ChunkTokens[0]
	}
	return 1
}
