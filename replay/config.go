package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/replay/internal/api"
	"parley/replay/internal/observe"
	"parley/replay/internal/wire"
	"parley/replay/load"
	"parley/schemas"
)

// Defaults of a [Config]'s zero values.
const (
	DefaultTimeout     = 10 * time.Minute
	DefaultIdleTimeout = 2 * time.Minute
	DefaultGrace       = 30 * time.Second
	DefaultReadyLimit  = 5 * time.Minute
	DefaultScrape      = time.Second
)

// countMargin is how much longer than a turn's limit the grace of a count is: the last turns come to their own limit
// first, and are timeouts as they are in the rest of the run.
const countMargin = 5 * time.Second

// None is the value of a duration that is switched off where 0 means the default.
const None = -1 * time.Nanosecond

// Config says what to replay, against which servers, and how. Each field is a flag of parley replay; the
// zero value of a field is the flag's default. Give Dataset, Output, URLs and one of Concurrency, Rate
// and Arrivals "recorded".
type Config struct {
	Dataset string `json:"dataset"` // file of conversations

	// Open opens the dataset; nil opens parley's own files only. Files of other make are read by what makes
	// datasets of them.
	Open func(path string) (*schemas.Dataset, error) `json:"-"`

	Output string `json:"output"` // file of requests; the journal stands beside it
	Resume bool   `json:"resume,omitempty"`
	RunID  string `json:"run_id,omitempty"` // the same for all shards; made up if empty
	Label  string `json:"label,omitempty"`  // stands in the metadata

	Place schemas.Place `json:"-"` // of a run of a plan; stands in the metadata

	URLs      []string `json:"urls"`            // base URLs; conversations are spread over them
	API       string   `json:"api,omitempty"`   // chat, completions, responses, anthropic, ollama; "" is chat
	Model     string   `json:"model,omitempty"` // "" is the server's first; a=0.7,b=0.3 is a mix by conversation
	Simulated bool     `json:"simulated,omitempty"`
	SimURLs   []string `json:"simulated_servers,omitempty"` // the sim: URLs in whose place URLs has addresses

	Concurrency      int      `json:"concurrency,omitempty"`       // closed loop: conversations at once
	Rate             *float64 `json:"-"`                           // open loop: conversations that start per second; +Inf is no pacing
	Arrivals         string   `json:"arrivals,omitempty"`          // poisson, gamma, constant, recorded; "" is poisson, or gamma with a Burstiness
	Burstiness       float64  `json:"burstiness,omitempty"`        // shape of gamma arrivals; 0 is 1
	Speed            float64  `json:"speed,omitempty"`             // of recorded arrivals; 0 is 1
	MaxConversations int      `json:"max_conversations,omitempty"` // open loop: most conversations at once; 0 is no limit
	WhenFull         string   `json:"when_full,omitempty"`         // wait or shed; "" is wait
	MaxInFlight      int      `json:"max_in_flight,omitempty"`     // most requests at once; 0 is no limit

	ConcurrencyStages []load.Stage `json:"concurrency_stages,omitempty"` // in place of Concurrency: levels one after the other
	RateStages        []load.Stage `json:"rate_stages,omitempty"`        // in place of Rate

	Think    string        `json:"think,omitempty"`     // recorded, none, a duration, or a factor like 0.5x; "" is recorded
	ToolTime string        `json:"tool_time,omitempty"` // the same of tool times
	ThinkCap time.Duration `json:"think_cap,omitempty"` // longest think time; 0 is no limit
	Ramp     time.Duration `json:"ramp,omitempty"`      // closed loop: spread of the first arrivals; open loop: time over which the rate rises

	Duration    time.Duration `json:"duration,omitempty"`     // when to stop starting turns, from the first arrival's time on
	Requests    int64         `json:"requests,omitempty"`     // how many turns to start after the warm-up
	MinDuration time.Duration `json:"min_duration,omitempty"` // Requests stops the run only after this time
	MaxErrors   string        `json:"max_errors,omitempty"`   // a count, a share like 10%, or none; "" is the default brake, see load.Scheduler
	Loops       int           `json:"loops,omitempty"`        // passes over the dataset; 0 is one, or no limit with Duration or Requests
	Grace       time.Duration `json:"grace,omitempty"`        // how long running turns may finish after that; 0 is 30 s, or after Requests the Timeout and countMargin; None is none
	Timeout     time.Duration `json:"timeout,omitempty"`      // one turn in all; 0 is 10 m, None is no limit
	IdleTimeout time.Duration `json:"idle_timeout,omitempty"` // one silence in a stream; 0 is 2 m, None is no limit
	Deadline    time.Duration `json:"deadline,omitempty"`     // the whole run; 0 is no limit

	Warmup     int64         `json:"warmup,omitempty"`      // the first turns that start: rows with phase=warmup
	WarmupTime time.Duration `json:"warmup_time,omitempty"` // and all that start within this time
	Stagger    bool          `json:"stagger,omitempty"`     // closed loop: the first conversations begin at mixed ages, see Run

	History          string `json:"history,omitempty"`           // live or recorded; "" is live
	HistoryReasoning bool   `json:"history_reasoning,omitempty"` // the answers' reasoning goes back into the history too
	OutputTokens     string `json:"output_tokens,omitempty"`     // dataset, none, or a number; "" is dataset
	IgnoreEOS        bool   `json:"ignore_eos,omitempty"`        // ask for exactly the output tokens
	MinTokens        int64  `json:"min_tokens,omitempty"`
	KeepGoing        bool   `json:"keep_going,omitempty"` // a failed turn does not end its conversation: the recorded answer takes its place

	Headers        []string      `json:"-"`                      // NAME: TEMPLATE with {conversation}, {turn}, {request}, {run}
	BodyFields     []string      `json:"body_fields,omitempty"`  // NAME=TEMPLATE
	EchoHeaders    []string      `json:"echo_headers,omitempty"` // response headers that go into the conversation's next request
	Cookies        bool          `json:"cookies,omitempty"`      // a cookie jar per conversation
	ExtraBody      string        `json:"extra_body,omitempty"`   // a JSON object merged into each request
	Sampling       string        `json:"sampling,omitempty"`     // a JSON object merged into each request before ExtraBody
	APIKey         string        `json:"-"`                      // never in a file
	APIKeyEnv      string        `json:"api_key_env,omitempty"`  // where APIKey came from
	APIKeyFile     string        `json:"-"`                      // holds the key instead of APIKey; read again when it changes
	Salt           bool          `json:"salt,omitempty"`         // a text of this run's and this pass's own before each conversation
	FlushCache     bool          `json:"flush_cache,omitempty"`
	NoProbe        bool          `json:"no_probe,omitempty"`
	ReadyLimit     time.Duration `json:"-"`                // 0 is 5 m, None is none
	Scrape         []string      `json:"scrape,omitempty"` // metrics URLs; empty is each target's /metrics if there; "none" is none
	ScrapeInterval time.Duration `json:"scrape_interval,omitempty"`
	Metrics        string        `json:"-"`                     // address that serves the run's figures to Prometheus while it goes on; "" is none
	Traceparent    bool          `json:"traceparent,omitempty"` // each request says which trace and span it belongs to (W3C trace context)
	OTLP           string        `json:"-"`                     // URL of a receiver of spans and histograms (OTLP over HTTP); "" is none
	OTLPHeaders    string        `json:"-"`                     // of requests to it, NAME=VALUE,...; never in a file
	Retries        int           `json:"retries,omitempty"`
	SaveText       bool          `json:"save_text,omitempty"`
	VerifyOutput   string        `json:"verify_output,omitempty"` // file of a first run whose answers these are to equal; asks for temperature 0
	Cancel         string        `json:"cancel,omitempty"`        // SHARE:TIME: turns that are given up so long after their start
	Preconnect     int           `json:"preconnect,omitempty"`    // connections made before the load; 0 is as many as the closed loop needs, -1 is none

	KeepIdle       time.Duration `json:"keep_idle,omitempty"`       // how long an idle connection is used again; 0 is 4 s, None: none is used twice
	ConnectTimeout time.Duration `json:"connect_timeout,omitempty"` // name look-up, connect and TLS; 0 is 30 s
	NewConnections bool          `json:"new_connections,omitempty"` // each request has a connection of its own, made for it

	CAFile     string `json:"ca_file,omitempty"`
	ClientCert string `json:"client_cert,omitempty"` // certificate that the client shows, and its key
	ClientKey  string `json:"client_key,omitempty"`
	Insecure   bool   `json:"insecure,omitempty"`
	HTTP2      bool   `json:"http2,omitempty"`
	Proxy      string `json:"-"`
	UnixSocket string `json:"unix_socket,omitempty"`
	Path       string `json:"path,omitempty"`       // of the requests, in the place of what the API and the URL make
	UserClock  bool   `json:"user_clock,omitempty"` // no kernel time stamps

	Shard   string    `json:"shard,omitempty"` // i/n: every nth conversation of the same schedule; "" is 0/1
	StartAt time.Time `json:"start_at,omitzero"`
	Seed    uint64    `json:"seed"`
}

// settled is a Config with its texts parsed and its defaults filled in.
type settled struct {
	Config
	rules      load.Rules
	tokensFrom string // dataset, none, number
	tokens     int64
	extra      []json.RawMessage
	headers    []template
	fields     []template

	models      []weighted // of a mix
	cancelShare float64
	cancelAfter time.Duration
	zero        bool // ask for temperature 0
}

// Validate gives every problem of the configuration at once, each with the name of its flag.
func (c Config) Validate() error {
	_, err := c.settle()
	return err
}

func (c Config) settle() (*settled, error) {
	s := &settled{Config: c}
	if s.Open == nil {
		s.Open = schemas.OpenDataset
	}
	var problems []error
	bad := func(flag, format string, args ...any) {
		problems = append(problems, fmt.Errorf("--%s: "+format, append([]any{flag}, args...)...))
	}
	if c.Dataset == "" {
		problems = append(problems, errors.New("no dataset: give a file of conversations"))
	}
	if c.Output == "" {
		bad("output", "missing: give the file to write")
	}
	s.settleTargets(bad)
	s.settleLoad(bad)
	s.settleStops(bad)
	s.settleRequests(bad)
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *settled) settleTargets(bad func(flag, format string, args ...any)) {
	if len(s.URLs) == 0 {
		bad("url", "missing: give the server's base URL, such as http://127.0.0.1:8000")
	}
	s.URLs = slices.Clone(s.URLs)
	for i, text := range s.URLs {
		if !strings.Contains(text, "://") && !strings.HasPrefix(text, "unix:") {
			text = "http://" + text // 127.0.0.1:8000
			s.URLs[i] = text
		}
		if err := wire.CheckURL(text); err != nil {
			bad("url", "%w", err)
		}
	}
	if s.API == "" {
		s.API = string(api.Chat)
	}
	if _, err := api.New(s.API); err != nil {
		bad("api", "%w", err)
	}
	if s.OTLP != "" {
		if _, err := observe.NewExporter(observe.ExporterOptions{URL: s.OTLP, Headers: s.OTLPHeaders}); err != nil {
			bad("otlp", "%w", err)
		}
	}
	r := &s.rules
	r.Shard, r.Shards = 0, 1
	if s.Shard != "" {
		i, n, ok := strings.Cut(s.Shard, "/")
		var err1, err2 error
		r.Shard, err1 = strconv.Atoi(i)
		r.Shards, err2 = strconv.Atoi(n)
		if !ok || err1 != nil || err2 != nil || r.Shards < 1 || r.Shard < 0 || r.Shard >= r.Shards {
			bad("shard", "%q: give i/n with 0 <= i < n", s.Shard)
			r.Shard, r.Shards = 0, 1
		}
	}
	if s.Preconnect < -1 {
		bad("preconnect", "%d: give a number of connections, 0 for as many as the load needs, or -1 for none", s.Preconnect)
	}
}

func (s *settled) settleLoad(bad func(flag, format string, args ...any)) {
	r := &s.rules
	r.Seed, r.Ramp, r.Stagger, r.KeepGoing = s.Seed, s.Ramp, s.Stagger, s.KeepGoing
	if r.Concurrency = s.ConcurrencyStages; s.Concurrency != 0 {
		r.Concurrency = append([]load.Stage{{Level: float64(s.Concurrency)}}, r.Concurrency...)
	}
	if r.Rate = s.RateStages; s.Rate != nil {
		r.Rate = append([]load.Stage{{Level: *s.Rate}}, r.Rate...)
	}
	for _, st := range r.Concurrency {
		if !(st.Level >= 1) || st.Level != math.Trunc(st.Level) || st.Level > math.MaxInt32 {
			bad("concurrency", "%v: has to be a positive whole number", st.Level)
		}
	}
	if recorded := s.Arrivals == "recorded"; len(r.Concurrency) > 0 && !recorded && (s.Arrivals != "" || s.Burstiness != 0) {
		bad("arrivals", "are those of an open loop (--rate), and so is --burstiness: a closed loop (--concurrency) starts a conversation when a place is free")
	}
	s.settleArrivals(bad)
	recorded := s.Arrivals == "recorded"
	shapes := 0
	for _, is := range []bool{len(r.Concurrency) > 0, len(r.Rate) > 0 || recorded} {
		if is {
			shapes++
		}
	}
	switch {
	case shapes == 0:
		bad("concurrency", "no load: give --concurrency N (closed loop), --rate R (open loop), or --arrivals recorded")
	case shapes > 1:
		bad("concurrency", "cannot be given with --rate or recorded arrivals: cap an open loop with --max-conversations")
	}
	for i, st := range append(slices.Clone(r.Concurrency), r.Rate...) {
		if stages := len(r.Concurrency) + len(r.Rate); st.For < 0 || st.For == 0 && shapes == 1 && i < stages-1 {
			bad(s.levelFlag(), "each stage but the last needs its time: give stages such as 8:2m,16:2m")
		}
	}
	if stages := slices.Concat(r.Concurrency, r.Rate); len(stages) > 1 && r.Ramp > stages[0].For {
		bad("ramp", "%v is longer than the first stage (%v), within which it raises the load", r.Ramp, stages[0].For)
	}
	closed := len(r.Concurrency) > 0
	if s.MaxConversations > 0 && closed {
		bad("max-conversations", "caps an open loop (--rate): a closed loop has --concurrency")
	}
	switch s.WhenFull {
	case "", "wait", "shed":
		if s.WhenFull != "" && s.MaxConversations == 0 {
			bad("when-full", "means nothing without --max-conversations")
		}
	default:
		bad("when-full", "%q: give wait or shed", s.WhenFull)
	}
	r.MaxConversations, r.MaxInFlight, r.Shed = s.MaxConversations, s.MaxInFlight, s.WhenFull == "shed"
	// A run's limits are those of all its shards together: each has its share.
	whole := map[string]int64{"max-conversations": int64(s.MaxConversations), "max-in-flight": int64(s.MaxInFlight), "requests": s.Requests}
	for _, st := range r.Concurrency {
		if n, ok := whole["concurrency"]; !ok || int64(st.Level) < n {
			whole["concurrency"] = int64(st.Level)
		}
	}
	for flag, n := range whole {
		if n > 0 && load.Share(n, r.Shard, r.Shards) == 0 {
			bad(flag, "%d leaves nothing for shard %d of %d: give at least %d", n, r.Shard, r.Shards, r.Shards)
		}
	}
	r.ThinkCap = s.ThinkCap
	var err error
	if r.Think, err = load.ParseScale(s.Think); err != nil {
		bad("think", "%w", err)
	}
	if r.Tool, err = load.ParseScale(s.ToolTime); err != nil {
		bad("tool-time", "%w", err)
	}
	if s.Stagger && !closed {
		bad("stagger", "needs --concurrency: an open loop has no first conversations that run at once")
	}
}

// levelFlag gives the flag that the load's levels came from.
func (s *settled) levelFlag() string {
	if len(s.rules.Rate) > 0 {
		return "rate"
	}
	return "concurrency"
}

func (s *settled) settleArrivals(bad func(flag, format string, args ...any)) {
	switch {
	case s.Burstiness < 0 || math.IsNaN(s.Burstiness) || math.IsInf(s.Burstiness, 0):
		bad("burstiness", "%v: has to be a positive number", s.Burstiness)
	case s.Arrivals == "" && s.Burstiness != 0 && s.Burstiness != 1:
		s.Arrivals = "gamma"
	case s.Arrivals == "":
		s.Arrivals = "poisson"
	case s.Burstiness != 0 && s.Burstiness != 1 && s.Arrivals != "gamma":
		bad("burstiness", "%v goes with --arrivals gamma, not %s", s.Burstiness, s.Arrivals)
	}
	if s.Burstiness == 0 {
		s.Burstiness = 1
	}
	recorded := s.Arrivals == "recorded"
	if !slices.Contains([]string{"poisson", "gamma", "constant", "recorded"}, s.Arrivals) {
		bad("arrivals", "%q: give poisson, gamma, constant or recorded", s.Arrivals)
	}
	switch {
	case s.Speed < 0 || math.IsNaN(s.Speed) || math.IsInf(s.Speed, 0):
		bad("speed", "%v: has to be a positive number", s.Speed)
	case s.Speed != 0 && s.Speed != 1 && !recorded:
		bad("speed", "goes with --arrivals recorded")
	case s.Speed == 0:
		s.Speed = 1
	}
	r := &s.rules
	r.Arrivals, r.Burstiness, r.Speed = s.Arrivals, s.Burstiness, s.Speed
	for _, st := range r.Rate {
		switch rate := st.Level; {
		case math.IsNaN(rate):
			bad("rate", "not a number: give conversations per second, such as 5 or 0.2")
		case rate == 0:
			bad("rate", "0 would never start a conversation: give conversations per second, or inf for no pacing")
		case rate < 0:
			bad("rate", "%v is negative: give conversations per second", rate)
		case rate < 1e-6:
			bad("rate", "%v is less than one conversation in eleven days", rate)
		case math.IsInf(rate, 1) && (s.Ramp > 0 || len(r.Rate) > 1):
			bad("rate", "inf is no pacing: it has no ramp and no stages")
		}
	}
	if len(r.Rate) > 0 && recorded {
		bad("rate", "cannot be given with --arrivals recorded: scale recorded arrivals with --speed")
	}
}

func (s *settled) settleStops(bad func(flag, format string, args ...any)) {
	counted := s.Grace == 0 // the grace of a count lets each turn come to its own limit, unless one was given
	for flag, d := range map[string]time.Duration{
		"duration": s.Duration, "deadline": s.Deadline, "min-duration": s.MinDuration, "warmup-time": s.WarmupTime, "think-cap": s.ThinkCap, "ramp": s.Ramp,
		"keep-idle": s.KeepIdle, "connect-timeout": s.ConnectTimeout,
	} {
		if d < 0 && (d != None || flag != "keep-idle" && flag != "connect-timeout") {
			bad(flag, "%v is negative", d)
		}
	}
	for flag, n := range map[string]int64{
		"requests": s.Requests, "loops": int64(s.Loops), "warmup": s.Warmup, "min-tokens": s.MinTokens, "retries": int64(s.Retries),
		"max-conversations": int64(s.MaxConversations), "max-in-flight": int64(s.MaxInFlight),
	} {
		if n < 0 {
			bad(flag, "%d is negative", n)
		}
	}
	for _, d := range []struct {
		flag string
		v    *time.Duration
		def  time.Duration
	}{
		{"grace", &s.Grace, DefaultGrace}, {"timeout", &s.Timeout, DefaultTimeout},
		{"idle-timeout", &s.IdleTimeout, DefaultIdleTimeout}, {"ready-limit", &s.ReadyLimit, DefaultReadyLimit},
		{"scrape-interval", &s.ScrapeInterval, DefaultScrape},
	} {
		switch {
		case *d.v == 0:
			*d.v = d.def
		case *d.v == None:
			*d.v = 0
		case *d.v < 0:
			bad(d.flag, "%v is negative", *d.v)
		}
	}
	if s.MinDuration > 0 && s.Requests == 0 {
		bad("min-duration", "goes with --requests: a run that stops by time has --duration")
	}
	r := &s.rules
	r.Duration, r.Requests, r.MinDuration, r.Deadline = s.Duration, s.Requests, s.MinDuration, s.Deadline
	if all := r.Length(); all > 0 && (r.Duration == 0 || all < r.Duration) {
		r.Duration = all
	}
	if r.Loops = s.Loops; r.Loops == 0 && !r.Bounded() {
		r.Loops = 1
	}
	r.Grace, r.CountGrace = s.Grace, s.Grace
	if counted {
		if r.CountGrace = s.Timeout + countMargin; s.Timeout == 0 {
			r.CountGrace = -1
		}
	}
	r.Warmup, r.WarmupTime = s.Warmup, s.WarmupTime
	var err error
	if r.MaxErrors, err = load.ParseBudget(s.MaxErrors); err != nil {
		bad("max-errors", "%w", err)
	}
}

func (s *settled) settleRequests(bad func(flag, format string, args ...any)) {
	switch s.History {
	case "":
		s.History = "live"
	case "live", "recorded":
	default:
		bad("history", "%q: give live or recorded", s.History)
	}
	switch s.OutputTokens {
	case "", "dataset":
		s.tokensFrom = "dataset"
	case "none":
		s.tokensFrom = "none"
		if s.IgnoreEOS {
			bad("ignore-eos", "without a limit of output tokens an answer would never end: leave --output-tokens none out")
		}
	default:
		n, err := strconv.ParseInt(s.OutputTokens, 10, 64)
		if err != nil || n < 1 {
			bad("output-tokens", "%q: give dataset, none, or a number of at least 1", s.OutputTokens)
		}
		s.tokensFrom, s.tokens = "number", n
	}
	for _, b := range []struct{ flag, text string }{{"sampling", s.Sampling}, {"extra-body", s.ExtraBody}} {
		if b.text == "" {
			continue
		}
		if err := api.CheckExtra([]byte(b.text)); err != nil {
			bad(b.flag, "%w", err)
		}
		s.extra = append(s.extra, json.RawMessage(b.text))
	}
	s.settleAnswers(bad)
	for _, h := range s.Headers {
		t, err := parseTemplate(h, ":")
		if err != nil {
			// The text may hold a secret: it is not repeated.
			bad("header", "%w", err)
			continue
		}
		s.headers = append(s.headers, t)
	}
	for _, f := range s.BodyFields {
		t, err := parseTemplate(f, "=")
		if err != nil {
			bad("body-field", "%w", err)
			continue
		}
		s.fields = append(s.fields, t)
	}
}

// settleAnswers settles what is done about single answers: by which model they are, whether they are given up, and
// what they are compared with.
func (s *settled) settleAnswers(bad func(flag, format string, args ...any)) {
	var err error
	if s.models, err = parseModels(s.Model); err != nil {
		bad("model", "%w", err)
	}
	if s.Cancel != "" {
		if s.cancelShare, s.cancelAfter, err = parseCancel(s.Cancel); err != nil {
			bad("cancel", "%w", err)
		}
	}
	if s.NewConnections {
		if s.Preconnect > 0 {
			bad("new-connections", "means that none is made beforehand: leave --preconnect out")
		}
		s.KeepIdle, s.Preconnect = None, -1
	}
	if s.VerifyOutput == "" {
		return
	}
	s.zero = true
	for _, raw := range s.extra {
		var given struct{ Temperature *float64 }
		if json.Unmarshal(raw, &given) == nil && given.Temperature != nil && *given.Temperature != 0 {
			bad("verify-output", "compares answers at temperature 0, and the request asks for %v", *given.Temperature)
		}
	}
	if s.Cancel != "" {
		bad("verify-output", "compares whole answers: leave --cancel out")
	}
}

// outputTokens gives the tokens that a turn asks for, 0 for no limit.
func (s *settled) outputTokens(turn *schemas.Turn) int64 {
	switch {
	case s.tokensFrom == "number":
		return s.tokens
	case s.tokensFrom == "dataset" && turn.OutputTokens != nil:
		return max(0, *turn.OutputTokens)
	}
	return 0
}

// MarshalJSON gives the configuration for a file: without keys, header values, and passwords in URLs.
func (c Config) MarshalJSON() ([]byte, error) {
	type plain Config
	out := struct {
		plain
		Rate       string   `json:"rate,omitempty"` // as text, since JSON has no infinity
		Headers    []string `json:"headers,omitempty"`
		ReadyLimit string   `json:"ready_limit,omitempty"`
		Proxy      bool     `json:"proxy,omitempty"`
	}{plain: plain(c), Proxy: c.Proxy != ""}
	if c.Rate != nil {
		out.Rate = strconv.FormatFloat(*c.Rate, 'g', -1, 64)
	}
	if c.ReadyLimit != 0 {
		out.ReadyLimit = c.ReadyLimit.String()
	}
	out.Path, _, _ = strings.Cut(c.Path, "?")
	out.URLs = make([]string, len(c.URLs))
	for i, text := range c.URLs {
		out.URLs[i] = PublicURL(text)
	}
	out.plain.Scrape = slices.Clone(c.Scrape)
	for i, text := range out.plain.Scrape {
		out.plain.Scrape[i] = PublicURL(text)
	}
	for _, h := range c.Headers {
		name, _, _ := strings.Cut(h, ":")
		out.Headers = append(out.Headers, strings.TrimSpace(name)+": (not kept)")
	}
	return json.Marshal(out)
}

// PublicURL gives a URL without user name, password and query, for files and messages.
func PublicURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "(not a URL)"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}
