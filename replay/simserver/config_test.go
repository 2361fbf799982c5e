package simserver

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestDefault(t *testing.T) {
	c := Default()
	want := Config{
		Model: "sim", Dialect: "vllm", Prefill: 20000, Base: 10 * time.Millisecond, ITL: 12 * time.Millisecond, Jitter: 0.1,
		Slots: 64, CacheBlocks: 65536, BlockSize: 16, Output: 128, MaxModelLen: 131072,
		Accept: 0.7, Workers: 1, Transfer: time.Microsecond, DriftTime: time.Minute,
		FailStatus: 500, RetryAfter: time.Second, SlowHeaderFor: 5 * time.Second, HugeLineBytes: 2 << 20, MaxBody: 64 << 20,
	}
	if c != want {
		t.Errorf("Default() = %+v", c)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	if err := (Config{}).Validate(); err != nil {
		t.Errorf("zero value: %v", err)
	}
	names := map[string]bool{}
	_ = eachParam(&c, func(p param) error {
		if p.name == "" || p.help == "" || names[p.name] {
			t.Errorf("parameter %q: no name, no help, or twice", p.name)
		}
		names[p.name] = true
		return nil
	})
}

func TestParseURL(t *testing.T) {
	c, err := ParseURL("sim:?prefill=5e3&itl=3ms&slots=0&dialect=sglang&crlf&gzip=true&429=0.25&log=/tmp/x%20y&seed=-4&prefill_shared")
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Prefill, want.ITL, want.Slots, want.Dialect, want.CRLF, want.Gzip, want.TooMany, want.Log, want.Seed, want.PrefillShared =
		5000, 3*time.Millisecond, 0, "sglang", 1, 1, 0.25, "/tmp/x y", -4, true
	if c != want {
		t.Errorf("got %+v", c)
	}
	for _, s := range []string{"sim:", "sim:?", "sim://", "sim://?"} {
		if c, err := ParseURL(s); err != nil || c != Default() {
			t.Errorf("%s: %+v, %v", s, c, err)
		}
	}
	dashed, err := ParseURL("sim:?fail-status=503&max-model-len=100&log-chunks")
	if same, other := ParseURL("sim:?fail_status=503&max_model_len=100&log_chunks"); err != nil || other != nil || dashed != same || dashed.FailStatus != 503 {
		t.Errorf("with dashes %+v, %v; with underscores %+v, %v", dashed, err, same, other)
	}
	for s, wants := range map[string][]string{
		"http://x":                   {"not a sim: URL"},
		"sim:itl=3ms":                {"start with '?'"},
		"sim:?itl=3":                 {"itl=3: must be a duration"},
		"sim:?nope=1&slots=x":        {`unknown parameter "nope"`, "slots=x: must be a whole number"},
		"sim:?itl=1ms&itl=2ms":       {"itl is given 2 times"},
		"sim:?no-pe=1":               {`unknown parameter "no-pe"`},
		"sim:?log-chunks&log_chunks": {"log_chunks is given 2 times"},
		"sim:?fail=2":                {"fail=2: must be from 0 to 1"},
		"sim:?jitter=-1":             {"jitter=-1"},
		"sim:?cut=NaN&prefill=NaN":   {"cut=NaN", "prefill=NaN"},
		"sim:?prefill=Inf":           {"prefill=+Inf"},
		"sim:?dialect=x&queue=-2":    {"dialect=x: unknown; use one of anthropic,", "queue=-2"},
		"sim:?fail_status=200":       {"fail_status=200"},
		"sim:?ttft=-1s":              {"ttft=-1s: must not be negative"},
		"sim:?issue_header=a%0D%0Ab": {"not a header name"},
		"sim:?log_chunks=maybe":      {"log_chunks=maybe: must be true or false"},
		"sim:?%zz":                   {"parameters:"},
	} {
		_, err := ParseURL(s)
		for _, want := range wants {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want %q in it", s, err, want)
			}
		}
	}
}

func TestNewRefusesBadConfig(t *testing.T) {
	if _, err := New(Config{Fail: 3}); err == nil {
		t.Error("fail=3 was taken")
	}
	if _, err := New(Config{Log: "/nonexistent/dir/log"}); err == nil || !strings.Contains(err.Error(), "truth log") {
		t.Errorf("a log that cannot be made: %v", err)
	}
}

func FuzzParseURL(f *testing.F) {
	for _, s := range []string{"sim:?itl=12ms&slots=64", "sim:?fail=0.5&seed=-1&crlf", "sim:?log=a%26b&429=1", "sim:?prefill=1e300&jitter=0.1", "sim:?;", "sim:?queue=-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseURL(s)
		if err != nil {
			if c != (Config{}) {
				t.Errorf("%q: an error and a configuration", s)
			}
			return
		}
		again, err := ParseURL("sim:?" + c.Query())
		if err != nil || again != c {
			t.Errorf("%q became %q, read as %+v (%v), not %+v", s, c.Query(), again, err, c)
		}
		_ = eachParam(&c, func(p param) error {
			if p.v.Kind() == reflect.Float64 && (math.IsNaN(p.v.Float()) || math.IsInf(p.v.Float(), 0)) {
				t.Errorf("%q: %s=%v", s, p.name, p.v.Float())
			}
			return nil
		})
	})
}
