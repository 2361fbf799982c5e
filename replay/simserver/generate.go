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

// gap gives the time before chunk i.
func (j *job) gap(i, tokens int) time.Duration {
	cfg := &j.s.cfg
	d := float64(cfg.ITL) * float64(tokens)
	if cfg.Jitter > 0 {
		d *= 1 + cfg.Jitter*(2*unit(mix(j.a.rnd+uint64(i)*0x9E37))-1)
	}
	return time.Duration(d)
}

// generate waits for the prefill and sends the answer.
func (j *job) generate() {
	a := &j.a
	if j.plan.slowHeaders {
		a.first = a.first.Add(j.s.cfg.SlowHeaderFor)
	}
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
		for t := a.admitted.Add(every); t.Before(a.first); t = t.Add(every) {
			if err := j.pause(t); err != nil {
				j.gone(err)
				return
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
	if err := j.pause(a.first); err != nil {
		j.gone(err)
		return
	}
	j.s.model.remember(j.prompt.hashes)
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
	next := a.first
	middle := a.tokens / 2
	for i := 0; i < a.tokens; {
		n := min(cfg.ChunkTokens, a.tokens-i)
		p := a.partAt(i)
		if p == partTool && j.x == ollamaChat {
			n = a.tokens - i
		}
		for k := 1; k < n; k++ { // a chunk is of one kind
			if a.partAt(i+k) != p {
				n = k
			}
		}
		if i > 0 {
			next = next.Add(j.gap(i, n))
			if err := j.pause(next); err != nil {
				j.gone(err)
				return
			}
		}
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
	j.s.model.remember(j.prompt.hashes)
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
	end := a.first
	for i := range a.tokens {
		if i > 0 {
			end = end.Add(j.gap(i, 1))
		}
		t := a.textAt(i, j.plan.split)
		j.prompt.addText(t)
		if a.partAt(i) == partReasoning {
			reasoning.WriteString(t)
		} else {
			text.WriteString(t)
		}
	}
	if err := j.pause(end); err != nil {
		j.gone(err)
		return
	}
	j.s.model.remember(j.prompt.hashes)
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
