package simserver

import (
	"strings"
	"time"
)

// watchedWait is the shortest wait in which a stream looks whether its client is still there; shorter
// ones find out by their next write.
const watchedWait = 200 * time.Millisecond

// pause waits until t.
func (j *job) pause(t time.Time) error {
	d := time.Until(t)
	if d >= watchedWait {
		return j.k.wait(t)
	}
	time.Sleep(d)
	return nil
}

// generate waits for the prefill and sends the answer.
func (j *job) generate() {
	a := &j.a
	j.enc = newEncoder(j.x, a)
	if !j.truth.Streaming || j.plan.plainJSON {
		j.whole()
		return
	}
	j.buf = make([]byte, room, 1024)
	b := j.buf
	opened := false
	if (j.s.d.roleEarly || j.s.cfg.RoleEarly) && !j.plan.slowHeaders {
		j.head(j.enc.contentType(), -1)
		opened = true
		if b = j.enc.opening(b, a); len(b) > room {
			if !j.write(b, false) {
				return
			}
			b = j.buf[:room]
		}
	}
	if every := j.s.cfg.KeepAlive; every > 0 && j.x != ollamaChat && !j.plan.slowHeaders {
		for t := a.admitted.Add(every); ; t = t.Add(every) {
			there, err := j.work.first(t)
			if err != nil {
				j.gone(err)
				return
			}
			if there {
				break
			}
			if !opened {
				opened = true
				j.head(j.enc.contentType(), -1)
				b = j.enc.opening(b, a)
			}
			if !j.write(append(b, ": keep-alive\n\n"...), false) {
				return
			}
			b = j.buf[:room]
		}
	}
	if _, err := j.work.first(time.Time{}); err != nil {
		j.gone(err)
		return
	}
	j.s.accelerator.remember(j.prompt.hashes)
	if !opened {
		j.head(j.enc.contentType(), -1)
		b = j.enc.opening(b, a)
	}
	j.stream(b)
}

// stream sends the chunks on their schedule; b is what is to go before the first.
func (j *job) stream(b []byte) {
	a, cfg := &j.a, &j.s.cfg
	var held strings.Builder
	middle := a.tokens / 2
	ready := 0 // tokens that came and were not sent: a chunk is of one kind
	for i := 0; i < a.tokens; {
		n := min(max(cfg.ChunkTokens, ready), a.tokens-i)
		p := a.partAt(i)
		if p == partTool && j.x == ollamaChat {
			n = a.tokens - i
		}
		n = a.alike(i, n)
		if ready < n {
			more, err := j.work.next(i+ready, n-ready)
			if err != nil {
				j.gone(err)
				return
			}
			ready += more
			n = a.alike(i, ready)
		}
		ready -= n
		if j.plan.mid != "" && i >= middle && !j.fault(b) {
			return
		}
		text := ""
		if held.Len() == 0 && n == 1 {
			text = a.textAt(i, j.plan.split)
			j.prompt.addText(text)
		} else {
			for k := range n {
				t := a.textAt(i+k, j.plan.split)
				j.prompt.addText(t)
				held.WriteString(t)
			}
			text = held.String()
			held.Reset()
		}
		i += n
		a.done = i
		last := i == a.tokens
		if cfg.HoldText > 0 && !last && i > n && p == partText && a.partAt(i) == p && unit(mix(a.rnd^uint64(i)<<20)) < cfg.HoldText {
			held.WriteString(text)
			if !j.s.d.holdEmpty {
				continue
			}
			text = ""
		}
		b = j.enc.delta(b, a, p, text, last)
		if j.plan.hugeLine && (i > middle || last) {
			j.plan.hugeLine = false
			b = j.fatten(b)
		}
		if last {
			j.leave()
		}
		if !j.write(b, true) {
			return
		}
		b = j.buf[:room]
		a.chunks++
	}
	if a.tokens == 0 && j.plan.mid != "" && !j.fault(b) {
		return
	}
	j.finish(b)
}

// finish ends a stream that went well.
func (j *job) finish(b []byte) {
	j.s.accelerator.remember(j.prompt.hashes)
	j.leave()
	b = j.enc.ending(b, &j.a)
	j.truth.Finish = j.a.finish
	j.truth.EndNS = time.Now().UnixNano()
	j.count()
	j.s.stats.success.Add(1) // before the client can know and ask
	if err := j.k.writeBody(b, !j.plan.hang); err != nil {
		j.gone(err)
		return
	}
	if j.plan.hang {
		_ = j.k.wait(time.Time{})
		j.k.abort(false)
	}
}

func (j *job) count() {
	j.truth.Completion, j.truth.Reasoning, j.truth.Chunks = j.a.done, j.a.doneReasoning(), j.a.chunks
}

// fault does what the plan has for the middle of the answer, and says whether the answer goes on.
func (j *job) fault(b []byte) bool {
	mid := j.plan.mid
	j.plan.mid = ""
	j.count()
	if mid == "stall" {
		t := time.Now().Add(j.s.cfg.StallFor)
		if j.s.cfg.StallFor == 0 {
			t = time.Time{}
		}
		if err := j.k.wait(t); err != nil {
			j.gone(err)
			return false
		}
		return true
	}
	j.leave()
	j.truth.EndNS = time.Now().UnixNano()
	switch mid {
	case "cut", "reset":
		j.k.abort(mid == "reset")
	case "truncate":
		_ = j.k.writeBody(b, true) // the connection's end is the next thing anyway
	case "error_in_stream":
		out, abrupt := j.enc.failure(b, &j.a)
		if abrupt {
			j.k.abort(false)
			break
		}
		_ = j.k.writeBody(out, true)
	}
	return false
}

// write sends a piece of the stream and says whether the stream goes on. token tells pieces with tokens.
func (j *job) write(b []byte, token bool) bool {
	before := time.Now().UnixNano()
	err := j.k.writeBody(b, false)
	if cap(b) <= 64<<10 {
		j.buf = b[:room]
	}
	if token {
		t := &j.truth
		if t.FirstNS == 0 {
			t.FirstNS, t.FirstDoneNS = before, time.Now().UnixNano()
		}
		t.LastNS = before
		if j.s.cfg.LogChunk {
			t.ChunkNS = append(t.ChunkNS, before)
		}
		j.s.stats.generationTokens.Add(int64(j.a.done - t.Completion))
		t.Completion = j.a.done
		j.s.wrote()
	}
	if err != nil {
		j.count()
		j.gone(err)
		return false
	}
	return true
}

// whole sends the answer as one JSON body at the end of its time.
func (j *job) whole() {
	a := &j.a
	var reasoning, text strings.Builder
	_, err := j.work.first(time.Time{})
	for i, n := 0, 0; i < a.tokens && err == nil; i++ {
		if n == 0 {
			n, err = j.work.next(i, 1)
		}
		n--
		t := a.textAt(i, j.plan.split)
		j.prompt.addText(t)
		if a.partAt(i) == partReasoning {
			reasoning.WriteString(t)
		} else {
			text.WriteString(t)
		}
	}
	if err != nil {
		j.gone(err)
		return
	}
	j.s.accelerator.remember(j.prompt.hashes)
	j.leave()
	switch mid := j.plan.mid; mid {
	case "cut", "reset", "truncate":
		j.k.abort(mid == "reset")
		return
	case "stall":
		t := time.Time{}
		if j.s.cfg.StallFor > 0 {
			t = time.Now().Add(j.s.cfg.StallFor)
		}
		if err := j.k.wait(t); err != nil {
			j.gone(err)
			return
		}
	case "error_in_stream":
		j.refuse(500, lateMessage, "")
		return
	}
	a.done = a.tokens
	b := j.enc.body(buffer(), a, reasoning.String(), text.String())
	if j.plan.hugeLine {
		b = j.fatten(b)
	}
	j.head(jsonType, len(b)-room)
	now := time.Now().UnixNano()
	j.truth.FirstNS, j.truth.LastNS, j.truth.EndNS, j.truth.Finish = now, now, now, a.finish
	a.chunks = 1
	j.count()
	j.s.stats.generationTokens.Add(int64(a.done))
	j.s.stats.success.Add(1)
	if err := j.k.writeBody(b, true); err != nil {
		j.gone(err)
		return
	}
	j.truth.FirstDoneNS = time.Now().UnixNano()
	j.s.wrote()
}
