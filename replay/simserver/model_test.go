package simserver

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// words60 is a user message of 60 tokens: with its marks (user, end, assistant) a prompt of 63.
var words60 = strings.Repeat(" river", 60)

func ms(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }

func TestTimesAreExact(t *testing.T) {
	bubble(t, "prefill=1000&base=10ms&itl=20ms&jitter=0&log_chunks=1", func(b *bench) {
		g := b.post("/v1/chat/completions", chatBody(words60, 5, withUsage))
		r := readChat(t, g.body)
		if r.usage != [3]int{63, 5, 0} || r.finish != "length" || !r.done {
			t.Fatalf("usage %v, finish %q, done %v", r.usage, r.finish, r.done)
		}
		if countTokens(r.text) != 5 {
			t.Errorf("text %q has %d tokens, want 5", r.text, countTokens(r.text))
		}
		// 10 ms + 63 tokens at 1,000/s, then 20 ms each.
		for i, at := range g.at[:5] {
			if want := ms(73 + 20*float64(i)); at != want {
				t.Errorf("chunk %d came at %v, want %v", i, at, want)
			}
		}
		tr := b.truths()[0]
		rel := func(ns int64) time.Duration { return time.Duration(ns - b.start.UnixNano()) }
		if rel(tr.ReceivedNS) != 0 || rel(tr.FirstNS) != ms(73) || rel(tr.LastNS) != ms(153) || rel(tr.EndNS) != ms(153) {
			t.Errorf("truth: received %v first %v last %v end %v", rel(tr.ReceivedNS), rel(tr.FirstNS), rel(tr.LastNS), rel(tr.EndNS))
		}
		if len(tr.ChunkNS) != 5 || rel(tr.ChunkNS[2]) != ms(113) || tr.Chunks != 5 || tr.Completion != 5 || tr.Prompt != 63 {
			t.Errorf("truth: %+v", tr)
		}
		if tr.ResponseID != r.chunks[0].ID || !strings.HasPrefix(r.text, tr.ResponseID[len(tr.ResponseID)-6:]) {
			t.Errorf("response id %q, in the log %q, text %q", r.chunks[0].ID, tr.ResponseID, r.text)
		}
	})
}

func TestFixedTTFTAndChunkTokens(t *testing.T) {
	bubble(t, "ttft=500ms&itl=10ms&jitter=0&chunk_tokens=4", func(b *bench) {
		g := b.post("/v1/chat/completions", chatBody("Hi", 10, withUsage))
		want := []time.Duration{ms(500), ms(540), ms(560)} // 4, 4 and 2 tokens
		for i, w := range want {
			if g.at[i] != w {
				t.Errorf("chunk %d came at %v, want %v", i, g.at[i], w)
			}
		}
		if r := readChat(t, g.body); r.usage[1] != 10 || countTokens(r.text) != 10 {
			t.Errorf("usage %v, text of %d tokens", r.usage, countTokens(r.text))
		}
	})
}

func TestJitterStaysInItsBounds(t *testing.T) {
	bubble(t, "ttft=100ms&itl=10ms&jitter=0.5", func(b *bench) {
		g := b.post("/v1/chat/completions", chatBody("Hi", 200))
		varied := false
		for i := 1; i < 200; i++ {
			d := g.at[i] - g.at[i-1]
			if d < ms(5) || d > ms(15) {
				t.Fatalf("gap %d is %v", i, d)
			}
			varied = varied || d < ms(8) || d > ms(12)
		}
		if !varied {
			t.Error("no gap is far from the mean")
		}
		again := b.post("/v1/chat/completions", chatBody("Hi", 200))
		if again.at[5]-again.at[4] == g.at[5]-g.at[4] {
			t.Error("two requests have the same jitter")
		}
	})
}

func TestQueue(t *testing.T) {
	bubble(t, "ttft=100ms&itl=10ms&jitter=0&slots=1&queue=1&retry_after=1500ms", func(b *bench) {
		var got [3]*got
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				got[i] = b.post("/v1/chat/completions", chatBody("Hi", 11))
			})
		}
		wg.Wait()
		if got[0].at[0] != ms(100) {
			t.Errorf("the first answer began at %v", got[0].at[0])
		}
		// The first ends at 200 ms: then the second has the slot.
		if got[1].at[0] != ms(300) {
			t.Errorf("the queued answer began at %v, want 300ms", got[1].at[0])
		}
		if got[2].status != 503 || got[2].header.Get("Retry-After") != "2" || got[2].end != ms(2) {
			t.Errorf("the third: status %d, Retry-After %q, at %v", got[2].status, got[2].header.Get("Retry-After"), got[2].end)
		}
		if st := b.s.Stats(); st.MaxInFlight != 3 || st.InFlight != 0 || st.Running != 0 || st.Waiting != 0 || st.Refused != 1 || st.Success != 2 {
			t.Errorf("stats: %+v", st)
		}
	})
}

func TestQueuedClientLeaves(t *testing.T) {
	bubble(t, "ttft=1s&itl=1s&jitter=0&slots=1", func(b *bench) {
		first := b.dial()
		go b.send(first, "POST", "/v1/chat/completions", chatBody("Hi", 100))
		time.Sleep(ms(10))
		second := b.dial()
		go b.send(second, "POST", "/v1/chat/completions", chatBody("Hi", 1))
		time.Sleep(ms(10))
		if st := b.s.Stats(); st.Running != 1 || st.Waiting != 1 {
			t.Fatalf("running %d, waiting %d", st.Running, st.Waiting)
		}
		second.Close()
		time.Sleep(ms(1))
		if st := b.s.Stats(); st.Waiting != 0 || st.InFlight != 1 || st.Canceled != 1 {
			t.Errorf("after the queued client left: %+v", st)
		}
		first.Close() // in the prefill
		time.Sleep(ms(1))
		if st := b.s.Stats(); st.Running != 0 || st.InFlight != 0 || st.Canceled != 2 {
			t.Errorf("after both left: %+v", st)
		}
		for _, tr := range b.truths() {
			if tr.Error == "" {
				t.Errorf("no error in the log of request %d", tr.Seq)
			}
		}
	})
}

func TestPrefixCache(t *testing.T) {
	bubble(t, "prefill=1000&base=0s&itl=1ms&jitter=0&cache_blocks=100", func(b *bench) {
		ask := func(body string) (r read, ttft time.Duration) {
			t.Helper()
			from := time.Since(b.start)
			g := b.post("/v1/chat/completions", body)
			return readChat(t, g.body), g.at[0] - from
		}
		first, d := ask(chatBody(words60, 20, withUsage))
		if first.usage[2] != 0 || d != ms(63) {
			t.Fatalf("cold: cached %d, TTFT %v", first.usage[2], d)
		}
		// 63 tokens: three whole blocks are known; the last token is computed in any case.
		if r, d := ask(chatBody(words60, 20, withUsage)); r.usage[2] != 48 || d != ms(15) {
			t.Errorf("again: cached %d, TTFT %v, want 48 and 15ms", r.usage[2], d)
		}
		// The next turn brings the answer back: prompt and answer are 83 tokens, five blocks.
		answer, _ := json.Marshal(first.text)
		next := fmt.Sprintf(`{"model":"m","stream":true,"max_tokens":1,"ignore_eos":true,%s,"messages":[{"role":"user","content":%q},{"role":"assistant","content":%s},{"role":"user","content":" more"}]}`, withUsage, words60, answer)
		r, d := ask(next)
		if r.usage[0] != 88 || r.usage[2] != 80 || d != ms(8) {
			t.Errorf("next turn: prompt %d cached %d TTFT %v, want 88, 80, 8ms", r.usage[0], r.usage[2], d)
		}
		// A difference in the first block makes all the rest unknown.
		if r, _ := ask(chatBody(" stone"+words60, 20, withUsage)); r.usage[2] != 0 {
			t.Errorf("other prefix: cached %d", r.usage[2])
		}
		if st := b.s.Stats(); st.CacheQueries != 63+63+88+64 || st.CacheHits != 48+80 {
			t.Errorf("stats: %+v", st)
		}
		if g := b.get("/reset_prefix_cache"); g.status != 405 {
			t.Errorf("GET of the reset: %d", g.status)
		}
		if g := b.post("/reset_prefix_cache", ""); g.status != 200 {
			t.Errorf("reset: %d", g.status)
		}
		if r, _ := ask(chatBody(words60, 20, withUsage)); r.usage[2] != 0 {
			t.Errorf("after the reset: cached %d", r.usage[2])
		}
		// More than the capacity of other prompts drives it out.
		for i := range 30 {
			ask(chatBody(fmt.Sprint(i)+words60, 1))
		}
		if r, _ := ask(chatBody(words60, 20, withUsage)); r.usage[2] != 0 {
			t.Errorf("after 30 other prompts: cached %d", r.usage[2])
		}
	})
}

func TestPrefillShared(t *testing.T) {
	bubble(t, "prefill=1000&base=5ms&itl=1ms&jitter=0&prefill_shared=1&cache_blocks=0", func(b *bench) {
		var got [3]*got
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Microsecond)
				got[i] = b.post("/v1/chat/completions", chatBody(words60, 1, withUsage))
			})
		}
		wg.Wait()
		for i, g := range got {
			if want := ms(float64(63*(i+1) + 5)); g.at[0] != want {
				t.Errorf("answer %d began at %v, want %v", i, g.at[0], want)
			}
			if r := readChat(t, g.body); r.usage[2] != -1 {
				t.Errorf("cached %d reported without a cache", r.usage[2])
			}
		}
	})
}

// A client that obeys its limit is never seen above it, although it sends its next request the moment it
// has read the end of an answer.
func TestInFlightNeverAboveTheClients(t *testing.T) {
	bubble(t, "ttft=5ms&itl=1ms&jitter=0.3&slots=0", func(b *bench) {
		const workers = 8
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				c := b.dial()
				defer c.Close()
				for i := range 50 {
					if g := b.send(c, "POST", "/v1/chat/completions", chatBody("Hi", 1+i%7)); g.err != nil || g.status != 200 {
						t.Errorf("request: %d %v", g.status, g.err)
						return
					}
				}
			})
		}
		wg.Wait()
		if st := b.s.Stats(); st.MaxInFlight != workers || st.Success != workers*50 {
			t.Errorf("most in flight %d, want %d; %d answered", st.MaxInFlight, workers, st.Success)
		}
		for _, tr := range b.truths() {
			if tr.InFlight > workers {
				t.Errorf("request %d saw %d in flight", tr.Seq, tr.InFlight)
			}
		}
	})
}

func TestLengths(t *testing.T) {
	bubble(t, "ttft=1ms&itl=1ms&output=40&max_model_len=100", func(b *bench) {
		post := func(body string) read { return readChat(t, b.post("/v1/chat/completions", body).body) }
		free := `{"stream":true,"messages":[{"role":"user","content":"%d"}],` + withUsage + `}`
		seen := map[int]bool{}
		for i := range 20 {
			r := post(fmt.Sprintf(free, i))
			if r.usage[1] < 20 || r.usage[1] > 60 || r.finish != "stop" {
				t.Errorf("free length %d, finish %q", r.usage[1], r.finish)
			}
			if again := post(fmt.Sprintf(free, i)); again.usage[1] != r.usage[1] {
				t.Errorf("the same prompt gave %d and %d tokens", r.usage[1], again.usage[1])
			}
			seen[r.usage[1]] = true
		}
		if len(seen) < 5 {
			t.Errorf("20 prompts gave only %d different lengths", len(seen))
		}
		for _, c := range []struct {
			members string
			n       int
			finish  string
		}{
			{`"max_tokens":5`, 5, "length"},
			{`"max_completion_tokens":7`, 7, "length"},
			{`"max_tokens":70,"min_tokens":70`, 70, "length"},
			{`"max_tokens":90,"min_tokens":66`, 66, "stop"},
			{`"max_tokens":90,"ignore_eos":true`, 90, "length"},
			{`"max_tokens":2000,"ignore_eos":true`, 96, "length"}, // what the context leaves beside a prompt of 4
		} {
			r := post(`{"stream":true,"messages":[{"role":"user","content":"Hi"}],` + c.members + `,` + withUsage + `}`)
			if r.usage[1] != c.n || r.finish != c.finish {
				t.Errorf("%s: %d tokens, finish %q; want %d, %q", c.members, r.usage[1], r.finish, c.n, c.finish)
			}
		}
		if g := b.post("/v1/chat/completions", chatBody(strings.Repeat(" river", 100), 1)); g.status != 400 || !strings.Contains(g.body, "maximum context length") {
			t.Errorf("too long a prompt: %d %s", g.status, g.body)
		}
	})
}
