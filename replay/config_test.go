package replay

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"parley/replay/load"
)

// closed and open are the least that a configuration needs.
func closed() Config {
	return Config{Dataset: "d", Output: "o", URLs: []string{"http://h"}, Concurrency: 4}
}

func open(r float64) Config {
	return Config{Dataset: "d", Output: "o", URLs: []string{"http://h"}, Rate: &r}
}

func TestValidate(t *testing.T) {
	with := func(c Config, change func(*Config)) Config { change(&c); return c }
	tests := []struct {
		name string
		cfg  Config
		want []string // parts of the error; none for a good configuration
	}{
		{"closed loop", closed(), nil},
		{"open loop", open(5), nil},
		{"no pacing", open(math.Inf(1)), nil},
		{"nothing", Config{}, []string{"no dataset", "--output", "--url", "--concurrency: no load"}},
		{"rate 0", open(0), []string{"--rate: 0 would never start"}},
		{"negative rate", open(-3), []string{"--rate: -3 is negative"}},
		{"rate not a number", open(math.NaN()), []string{"--rate: not a number"}},
		{"minus infinite rate", open(math.Inf(-1)), []string{"--rate: -Inf is negative"}},
		{"tiny rate", open(1e-9), []string{"--rate"}},
		{"both loops", with(closed(), func(c *Config) { c.Rate = rate(1) }), []string{"--max-conversations"}},
		{"recorded with a rate", with(open(1), func(c *Config) { c.Arrivals = "recorded" }), []string{"--speed"}},
		{"recorded alone", with(closed(), func(c *Config) { c.Concurrency, c.Arrivals = 0, "recorded" }), nil},
		{"unknown arrivals", with(open(1), func(c *Config) { c.Arrivals = "weibull" }), []string{"--arrivals: \"weibull\""}},
		{"burstiness of poisson", with(open(1), func(c *Config) { c.Arrivals, c.Burstiness = "poisson", 0.5 }), []string{"--burstiness"}},
		{"burstiness makes gamma", with(open(1), func(c *Config) { c.Burstiness = 0.5 }), nil},
		{"negative burstiness", with(open(1), func(c *Config) { c.Burstiness = -1 }), []string{"--burstiness"}},
		{"speed of poisson", with(open(1), func(c *Config) { c.Speed = 2 }), []string{"--speed"}},
		{"shed without a cap", with(open(1), func(c *Config) { c.WhenFull = "shed" }), []string{"--when-full"}},
		{"cap of a closed loop", with(closed(), func(c *Config) { c.MaxConversations = 3 }), []string{"--max-conversations"}},
		{"think time", with(closed(), func(c *Config) { c.Think = "quickly" }), []string{"--think: \"quickly\""}},
		{"negative think factor", with(closed(), func(c *Config) { c.Think = "-2x" }), []string{"--think"}},
		{"think factor not a number", with(closed(), func(c *Config) { c.Think = "NaNx" }), []string{"--think"}},
		{"stagger of an open loop", with(open(1), func(c *Config) { c.Stagger = true }), []string{"--stagger"}},
		{"output tokens", with(closed(), func(c *Config) { c.OutputTokens = "many" }), []string{"--output-tokens"}},
		{"endless answers", with(closed(), func(c *Config) { c.OutputTokens, c.IgnoreEOS = "none", true }), []string{"--ignore-eos"}},
		{"history", with(closed(), func(c *Config) { c.History = "none" }), []string{"--history"}},
		{"shard", with(closed(), func(c *Config) { c.Shard = "3/3" }), []string{"--shard: \"3/3\""}},
		{"shard without a place", with(closed(), func(c *Config) { c.Shard = "4/8" }), []string{"--concurrency: 4 leaves nothing for shard 4 of 8"}},
		{"times", with(closed(), func(c *Config) { c.Duration, c.Ramp, c.Timeout = -1, -1, -5 }), []string{"--duration", "--ramp", "--timeout"}},
		{"no limits", with(closed(), func(c *Config) { c.Timeout, c.IdleTimeout, c.Grace = None, None, None }), nil},
		{"URL", with(closed(), func(c *Config) { c.URLs = []string{"ftp://h", "http://", "http://h/#q", "http://a b"} }), []string{`URLs of the scheme "ftp"`, "has no host", "must not have a fragment", "cannot be read"}},
		{"Unix socket", with(closed(), func(c *Config) { c.URLs = []string{"unix:/run/llm.sock"} }), nil},
		{"API", with(closed(), func(c *Config) { c.API = "grpc" }), []string{"--api"}},
		{"stages", with(closed(), func(c *Config) {
			c.Concurrency, c.ConcurrencyStages = 0, []load.Stage{{Level: 8, For: time.Minute}, {Level: 16}}
		}), nil},
		{"a stage without a time", with(closed(), func(c *Config) { c.Concurrency, c.ConcurrencyStages = 0, []load.Stage{{Level: 8}, {Level: 16}} }), []string{"--concurrency: each stage but the last"}},
		{"half a conversation", with(closed(), func(c *Config) { c.Concurrency, c.ConcurrencyStages = 0, []load.Stage{{Level: 0.5}} }), []string{"--concurrency: 0.5"}},
		{"a stage of no rate", with(closed(), func(c *Config) { c.Concurrency, c.RateStages = 0, []load.Stage{{Level: 0, For: 1}, {Level: 1}} }), []string{"--rate: 0 would"}},
		{"stages with a ramp", with(closed(), func(c *Config) {
			c.Concurrency, c.Ramp, c.RateStages = 0, 1, []load.Stage{{Level: 1, For: 1}, {Level: 2}}
		}), nil},
		{"a ramp beyond the first stage", with(closed(), func(c *Config) {
			c.Concurrency, c.Ramp, c.ConcurrencyStages = 0, 2, []load.Stage{{Level: 1, For: 1}, {Level: 2}}
		}), []string{"--ramp: 2ns is longer than the first stage"}},
		{"arrivals of a closed loop", with(closed(), func(c *Config) { c.Arrivals = "gamma" }), []string{"--arrivals: are those of an open loop"}},
		{"burstiness of a closed loop", with(closed(), func(c *Config) { c.Burstiness = 0.5 }), []string{"and so is --burstiness"}},
		{"error budget", with(closed(), func(c *Config) { c.MaxErrors = "many" }), []string{"--max-errors: \"many\""}},
		{"a minimum alone", with(closed(), func(c *Config) { c.MinDuration = 1 }), []string{"--min-duration: goes with --requests"}},
		{"tool time", with(closed(), func(c *Config) { c.ToolTime = "slow" }), []string{"--tool-time: \"slow\""}},
		{"extra body", with(closed(), func(c *Config) { c.ExtraBody, c.Sampling = "[1]", `{"messages":[]}` }), []string{"--extra-body", "--sampling: it must not set \"messages\""}},
		{"header", with(closed(), func(c *Config) { c.Headers = []string{"no colon", "a b: c", "ok: a\nb"} }), []string{"NAME:TEMPLATE", "no name of a header", "no line ends"}},
		{"body field", with(closed(), func(c *Config) { c.BodyFields = []string{"=x"} }), []string{"--body-field"}},
		{"counts", with(closed(), func(c *Config) {
			c.Requests, c.Loops, c.Warmup, c.Retries, c.MinTokens, c.MaxInFlight = -1, -1, -1, -1, -1, -1
		}), []string{"--requests", "--loops", "--warmup", "--retries", "--min-tokens", "--max-in-flight"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before, _ := json.Marshal(tt.cfg)
			err := tt.cfg.Validate()
			if (err != nil) != (len(tt.want) > 0) {
				t.Fatalf("error: %v", err)
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q is not in the error:\n%v", part, err)
				}
			}
			if after, _ := json.Marshal(tt.cfg); string(before) != string(after) {
				t.Errorf("Validate changed the configuration from %s to %s", before, after)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	s, err := closed().settle()
	if err != nil {
		t.Fatal(err)
	}
	r := &s.rules
	if s.Timeout != DefaultTimeout || s.IdleTimeout != DefaultIdleTimeout || r.Grace != DefaultGrace || r.CountGrace != DefaultTimeout+countMargin || r.Loops != 1 || r.Bounded() || s.API != "chat" || s.History != "live" {
		t.Errorf("%+v", s)
	}
	c := closed()
	c.Grace, c.Requests = None, 10
	if s, err = c.settle(); err != nil || s.rules.Grace != 0 || s.rules.CountGrace != 0 || s.rules.Loops != 0 || !s.rules.Bounded() {
		t.Errorf("%+v, %v", s, err)
	}
	c.Grace, c.Timeout = 0, None
	if s, err = c.settle(); err != nil || s.rules.Grace != DefaultGrace || s.rules.CountGrace != -1 {
		t.Errorf("%+v, %v", s, err)
	}
	c = closed()
	c.Concurrency, c.ConcurrencyStages, c.Duration = 0, []load.Stage{{Level: 2, For: time.Minute}, {Level: 4, For: time.Minute}}, time.Hour
	if s, err = c.settle(); err != nil || s.rules.Duration != 2*time.Minute || len(s.rules.Concurrency) != 2 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestShares checks that the shards' shares of a limit add up to it.
func TestShares(t *testing.T) {
	for _, whole := range []int64{7, 8, 100} {
		for shards := 1; shards <= 7; shards++ {
			sum := int64(0)
			for i := range shards {
				sum += load.Share(whole, i, shards)
			}
			if sum != whole {
				t.Errorf("%d over %d shards adds up to %d", whole, shards, sum)
			}
		}
	}
}

func TestConfigJSON(t *testing.T) {
	c := open(math.Inf(1))
	c.URLs = []string{"http://user:secret@h/base?key=secret"}
	c.APIKey, c.Headers, c.Proxy = "secret", []string{"Authorization: secret"}, "http://secret@proxy"
	c.Duration = time.Second
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "secret") {
		t.Errorf("a secret is in %s", text)
	}
	for _, part := range []string{`"http://h/base"`, `"rate":"+Inf"`, `Authorization`, `"proxy":true`, `"duration":1000000000`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("%s is not in %s", part, text)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"X-Session-ID: {conversation}", "a: {turn}-{request}-{run}", "b:{}", "c: {conversation", "d: {{turn}}", ":", "é: x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		h, err := parseTemplate(text, ":")
		if err != nil {
			return
		}
		_, want, _ := strings.Cut(text, ":")
		if h.text != strings.TrimSpace(want) {
			t.Errorf("%q became %q", text, h.text)
		}
		// Each place is filled once, and what fills it is not looked at again.
		filled := strings.NewReplacer(places("{turn}", "1", "r", "x", "0")...).Replace(h.text)
		if h.places != (filled != h.text) || strings.Count(filled, "{turn}") != strings.Count(h.text, "{conversation}") {
			t.Errorf("%q became %q", text, filled)
		}
	})
}
