package simserver

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// steps is an engine of round figures: 10 ms a step, 1 ms a sequence, 0.1 ms a prompt token.
const steps = "engine=batched&step=10ms&step_seq=1ms&step_token=100us&base=0s&jitter=0&log_chunks=1"

func TestBatchedTimesAreExact(t *testing.T) {
	bubble(t, steps, func(b *bench) {
		var got [2]*got
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() {
				time.Sleep(ms(float64(20 * i)))
				got[i] = b.post("/v1/chat/completions", chatBody(words60, 4, withUsage))
			})
		}
		wg.Wait()
		// 63 tokens take 10 + 6.3 ms, and then 11 each; the second comes in the step to 27.3 and is prefilled in the
		// next, but for the 48 tokens that the first has put into the cache.
		if want := []time.Duration{ms(16.3), ms(27.3), ms(27.3 + 11 + 1.5), ms(39.8 + 12)}; !slices.Equal(got[0].at[:4], want) {
			t.Errorf("first: %v, want %v", got[0].at, want)
		}
		if want := []time.Duration{ms(39.8), ms(51.8), ms(62.8), ms(73.8)}; !slices.Equal(got[1].at[:4], want) {
			t.Errorf("second: %v, want %v", got[1].at, want)
		}
		if r := readChat(t, got[1].body); r.usage != [3]int{63, 4, 48} || !r.done || r.finish != "length" || countTokens(r.text) != 4 {
			t.Errorf("second: usage %v, %q", r.usage, r.text)
		}
		tr := b.truths()[1]
		rel := func(ns int64) time.Duration { return time.Duration(ns - b.start.UnixNano()) }
		if rel(tr.ReceivedNS) != ms(20) || rel(tr.AdmittedNS) != ms(27.3) || rel(tr.FirstNS) != ms(39.8) || rel(tr.LastNS) != ms(73.8) || tr.Cached != 48 || len(tr.ChunkNS) != 4 {
			t.Errorf("truth: %+v", tr)
		}
	})
}

// The next turn finds prompt and answer of the one before it, and the flush forgets them.
func TestBatchedConversation(t *testing.T) {
	bubble(t, steps+"&cache_blocks=100", func(b *bench) {
		first := readChat(t, b.post("/v1/chat/completions", chatBody(words60, 20, withUsage)).body)
		answer, _ := json.Marshal(first.text)
		next := fmt.Sprintf(`{"model":"m","max_tokens":5,"ignore_eos":true,"messages":[{"role":"user","content":%q},{"role":"assistant","content":%s},{"role":"user","content":" more"}]}`, words60, answer)
		var r struct {
			Usage struct {
				Prompt  int `json:"prompt_tokens"`
				Details struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			} `json:"usage"`
		}
		from := time.Since(b.start)
		g := b.post("/v1/chat/completions", next)
		if err := json.Unmarshal([]byte(g.body), &r); err != nil || r.Usage.Prompt != 88 || r.Usage.Details.Cached != 80 || g.at[0]-from != ms(10.8+4*11) {
			t.Errorf("next turn, whole: %v, %+v, after %v", err, r, g.at[0]-from)
		}
		text := b.get("/metrics").body
		for _, want := range []string{"vllm:prefix_cache_hits_total{engine=\"0\",model_name=\"sim\"} 80\n", "vllm:prefix_cache_queries_total{engine=\"0\",model_name=\"sim\"} 151\n", "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"sim\"} 0\n"} {
			if !strings.Contains(text, want) {
				t.Errorf("metrics lack %q:\n%s", want, text)
			}
		}
		b.post("/reset_prefix_cache", "")
		if r := readChat(t, b.post("/v1/chat/completions", chatBody(words60, 20, withUsage)).body); r.usage[2] != 0 {
			t.Errorf("after the reset: %d cached", r.usage[2])
		}
		if g := b.post("/v1/chat/completions", chatBody(words60, 2000)); g.status != 400 || !strings.Contains(g.body, "KV cache") {
			t.Errorf("more than the cache: %d %s", g.status, g.body)
		}
	})
}

// A full cache throws sequences out, and they come back: everybody gets all tokens.
func TestBatchedPreemption(t *testing.T) {
	bubble(t, steps+"&cache_blocks=20", func(b *bench) {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				if r := readChat(t, b.post("/v1/chat/completions", chatBody(fmt.Sprint(i)+words60, 100, withUsage)).body); r.usage[1] != 100 || countTokens(r.text) != 100 {
					t.Errorf("request %d: usage %v, %d tokens", i, r.usage, countTokens(r.text))
				}
			})
		}
		time.Sleep(ms(1500))
		if st := b.s.Stats(); st.Running == 0 || st.Waiting == 0 || st.Running+st.Waiting > 8 {
			t.Errorf("stats %+v", st)
		}
		wg.Wait()
		l := b.s.accelerator.load()
		if text := b.get("/metrics").body; l.preemptions == 0 || !strings.Contains(text, fmt.Sprintf("vllm:num_preemptions_total{engine=\"0\",model_name=\"sim\"} %d\n", l.preemptions)) {
			t.Errorf("%d preemptions:\n%s", l.preemptions, text)
		}
		if l.running != 0 || l.waiting != 0 || l.usage != 0 {
			t.Errorf("load %+v", l)
		}
	})
}

func TestBatchedClientsLeave(t *testing.T) {
	bubble(t, strings.Replace(steps, "step=10ms", "step=1s", 1)+"&slots=1&queue=1", func(b *bench) {
		first, second := b.dial(), b.dial()
		go b.send(first, "POST", "/v1/chat/completions", chatBody("Hi", 100))
		time.Sleep(ms(10))
		go b.send(second, "POST", "/v1/chat/completions", chatBody("Hi", 1))
		time.Sleep(ms(10))
		if st := b.s.Stats(); st.Running != 1 || st.Waiting != 1 {
			t.Fatalf("running %d, waiting %d", st.Running, st.Waiting)
		}
		if g := b.post("/v1/chat/completions", chatBody("Hi", 1)); g.status != 503 {
			t.Errorf("the third: status %d", g.status)
		}
		second.Close()
		time.Sleep(ms(1))
		if st := b.s.Stats(); st.Waiting != 0 || st.InFlight != 1 || st.Canceled != 1 {
			t.Errorf("after the queued client left: %+v", st)
		}
		time.Sleep(5 * time.Second) // it decodes
		first.Close()
		time.Sleep(2 * time.Second)
		if st := b.s.Stats(); st.Running != 0 || st.InFlight != 0 || st.Canceled != 2 {
			t.Errorf("after both left: %+v", st)
		}
	})
}

// Several tokens a chunk, keep-alives before the first, and reasoning that ends inside of what came together.
func TestBatchedChunks(t *testing.T) {
	bubble(t, steps+"&draft=3&accept=1&reasoning=6&keepalive=5ms", func(b *bench) {
		g := b.post("/v1/chat/completions", chatBody(words60, 21, withUsage))
		r := readChat(t, g.body)
		if n := strings.Count(g.body, ": keep-alive"); n != 3 {
			t.Errorf("%d keep-alives in the 16.3 ms of the prefill", n)
		}
		if r.usage[1] != 21 || countTokens(r.reasoning) != 6 || countTokens(r.text) != 15 {
			t.Errorf("usage %v, %d and %d tokens", r.usage, countTokens(r.reasoning), countTokens(r.text))
		}
		// 1 token, then 4 in each of five steps of 11.3 ms; the second of them in two chunks.
		if tr := b.truths()[0]; tr.Chunks != 7 || tr.ChunkNS[6]-tr.ChunkNS[0] != int64(5*ms(11.3)) {
			t.Errorf("%d chunks at %v", tr.Chunks, tr.ChunkNS)
		}
	})
	bubble(t, steps+"&chunk_tokens=4", func(b *bench) {
		b.post("/v1/chat/completions", chatBody(words60, 10))
		if tr := b.truths()[0]; tr.Chunks != 3 || tr.Completion != 10 || tr.ChunkNS[1]-tr.ChunkNS[0] != int64(ms(44)) {
			t.Errorf("%+v", tr)
		}
	})
}

// Every API of every dialect says the same in the end, whichever engine makes the tokens.
func TestBatchedDialects(t *testing.T) {
	for _, name := range Dialects() {
		bubble(t, steps+"&dialect="+name, func(b *bench) {
			for _, x := range dialects[name].paths {
				body := `{"model":"m","stream":true,"max_completion_tokens":9,"messages":[{"role":"user","content":"Hi"}]}`
				switch {
				case x == completions:
					body = `{"model":"m","stream":true,"max_tokens":9,"prompt":"Hi"}`
				case x == responses:
					body = `{"model":"m","stream":true,"max_output_tokens":9,"input":"Hi"}`
				case x == messages || name == "mistral" || dialects[name].onlyMax:
					body = `{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}`
				case x == ollamaChat:
					body = `{"model":"m","options":{"num_predict":9},"messages":[{"role":"user","content":"Hi"}]}`
				}
				if g := b.post(x.path(), body); g.status != 200 || g.err != nil {
					t.Errorf("%s %s: %d %v %s", name, x.path(), g.status, g.err, g.body)
				}
			}
			for _, tr := range b.truths() {
				if tr.Error != "" || tr.Completion == 0 || tr.Finish == "" || tr.FirstNS == 0 {
					t.Errorf("%s: %+v", name, tr)
				}
			}
		})
	}
}

func TestPresets(t *testing.T) {
	parse := func(q string) Config {
		c, err := ParseQuery(q)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	// The weights, 16.06 GB at three quarters of 3.35 TB/s; 1,500 tokens of 128 KiB; 16 GFLOP at half of 989 TFLOPS.
	h := parse("gpu=h100")
	if h.Step != 6392*time.Microsecond || h.StepSequence != 78300*time.Nanosecond || h.StepToken != 32500*time.Nanosecond || h.CacheBlocks != 25243 || h.Slots != 1024 || h.Budget != 8192 {
		t.Errorf("h100: %v %v %v %d blocks, %d slots, %d budget", h.Step, h.StepSequence, h.StepToken, h.CacheBlocks, h.Slots, h.Budget)
	}
	if b := parse("engine=batched"); b.Batch() != h.Batch() {
		t.Errorf("batched without a gpu: %+v, want %+v", b.Batch(), h.Batch())
	}
	if c := parse("gpu=l40s&step=1ms&slots=7&cache-blocks=99"); c.Step != time.Millisecond || c.Slots != 7 || c.CacheBlocks != 99 || c.StepToken < 80*time.Microsecond || c.Budget != 2048 {
		t.Errorf("l40s with flags: %+v", c)
	}
	if (&Config{Engine: "batched", BlockSize: 16}).Batch().Step != h.Step {
		t.Error("a bare Config has no step")
	}
	for q, want := range map[string]string{"engine=x": "engine=x: unknown", "gpu=x": "gpu=x: unknown; use one of a100, h100", "gpu=h100&engine=constant": "has none", "engine=batched&mood=9": "mood=9: must be from 0 to 2"} {
		if _, err := ParseQuery(q); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", q, err)
		}
	}
	for _, q := range []string{"gpu=a100&slots=3", "engine=batched&step=1ms", "engine=constant", "gpu=h100&budget=0&mood=0.1"} {
		if c := parse(q); parse(c.Query()) != c {
			t.Errorf("%s came back as %s", q, c.Query())
		}
	}
}
