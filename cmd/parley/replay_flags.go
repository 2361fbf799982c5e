package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"parley/analyze/twin"
	"parley/replay"
	"parley/replay/load"
)

// replayCommand is the command line of parley replay. Numbers whose zero is a mistake rather than a
// default are pointers, so that replay can tell it and refuse it.
type replayCommand struct {
	Dataset []string `arg:"" placeholder:"DATASET" help:"Conversations to replay: a file of parley generate, the parts of a dataset (a folder, or parts/*.parquet), or any file of chats."`

	URL    []string `group:"Target" sep:"none" placeholder:"URL" help:"Base URL of the server, http:// or https://, or sim:?itl=12ms&slots=64, sim:?gpu=h100 or sim:?like=RUN for the built-in simulated server (llmsim --help). Repeat it to spread conversations over several."`
	API    string   `group:"Target" default:"chat" enum:"chat,completions,responses,anthropic,ollama" help:"API to speak: ${enum}."`
	Model  string   `group:"Target" help:"Model to ask for (default: the server's first), or a mix of models or adapters by conversation: base=0.7,adapter=0.3."`
	Output string   `group:"Target" short:"o" placeholder:"FILE" help:"File of results to write, never overwritten without --force; the folder of a plan's runs."`
	Force  bool     `group:"Target" help:"Overwrite the output."`
	Label  string   `group:"Target" help:"Name of this run in reports."`
	RunID  string   `group:"Target" name:"run-id" placeholder:"ID" help:"Identifier of the run, the same for all its shards (default: made up)."`

	Concurrency      *string       `group:"Load" sep:"none" placeholder:"N" help:"Conversations at once (closed loop); one keeps its place through think time, and with all that it starts. Stages: 8:2m,16:2m. A list, 1,2,4,8, makes a plan of runs: see --repeat."`
	Rate             *string       `group:"Load" sep:"none" placeholder:"R" help:"Conversations that start per second (open loop); inf for no pacing. Stages: 1:60s,2:60s. A list makes a plan of runs."`
	Arrivals         string        `group:"Load" placeholder:"KIND" help:"Arrival process of the open loop: poisson (default), gamma, constant, recorded."`
	Burstiness       *float64      `group:"Load" placeholder:"B" help:"Shape of gamma arrivals; 1 is Poisson, under 1 is burstier."`
	Speed            *float64      `group:"Load" placeholder:"X" help:"Speed of recorded arrivals."`
	MaxConversations *int          `group:"Load" placeholder:"N" help:"Most conversations at once in an open loop."`
	WhenFull         string        `group:"Load" placeholder:"HOW" help:"What happens beyond that: wait (late, recorded) or shed (a row that says so)."`
	MaxInFlight      *int          `group:"Load" placeholder:"N" help:"Most requests at once."`
	Think            string        `group:"Load" default:"recorded" help:"Think time between turns: recorded, none, a duration, or a factor like 0.5x."`
	ThinkCap         time.Duration `group:"Load" help:"Longest think time."`
	ToolTime         string        `group:"Load" default:"recorded" help:"Tool time between an agent's turns, and before the start of what they start: recorded, none, a duration, or a factor like 0.5x."`
	Ramp             time.Duration `group:"Load" help:"Spread the first arrivals of a closed loop, or raise an open loop's rate, over this time; of stages the first's."`
	Stagger          bool          `group:"Load" help:"Start the first conversations of a closed loop at mixed ages."`
	Warmup           int64         `group:"Load" placeholder:"TURNS" help:"First turns that are rows with phase=warmup."`
	WarmupTime       time.Duration `group:"Load" help:"All turns that start within this time are such rows too."`

	Repeat    int           `group:"Plan" default:"1" placeholder:"N" help:"Make every run N times, with a seed of its own each time. This, a list of levels and --b-profile make a plan: several runs, one file each, in the folder --output. --resume goes on with a plan that was stopped."`
	BProfile  string        `group:"Plan" name:"b-profile" type:"path" placeholder:"FILE" help:"Compare with a second target: a profile of the flags in which it differs (url, model, api-key-env, header, extra-body, label, ...). Runs go A B, B A, ..."`
	Order     string        `group:"Plan" default:"interleaved" enum:"interleaved,ascending,random" help:"Order of a plan's runs: ${enum}. Interleaved goes through all levels, there and back, before it repeats one."`
	Find      string        `group:"Plan" enum:",concurrency,rate" default:"" placeholder:"LOAD" help:"Find the largest load, concurrency or rate, at which every --objective holds. --duration is the longest that one run may take (default: 4m)."`
	Objective []string      `group:"Plan" sep:"none" placeholder:"CONDITION" help:"What has to hold: a percentile or mean of a figure of turns, or the error rate, such as 'ttft.p99<500ms'. Repeatable."`
	From      string        `group:"Plan" enum:",sent,start,scheduled" default:"" placeholder:"MOMENT" help:"The moment that objectives count from: sent, start or scheduled (default: sent with concurrency, scheduled with a rate)."`
	Between   time.Duration `group:"Plan" placeholder:"TIME" help:"Pause between a plan's runs."`

	Duration    time.Duration  `group:"Stop" help:"Stop starting turns after this time."`
	Requests    *int64         `group:"Stop" placeholder:"N" help:"Stop starting turns after this many."`
	Loops       *int           `group:"Stop" placeholder:"N" help:"Passes over the dataset (default: one, or no limit with --duration or --requests)."`
	MinDuration time.Duration  `group:"Stop" help:"--requests stops the run only after this time: both hold."`
	MaxErrors   string         `group:"Stop" placeholder:"N|P%" help:"Give up after this many failed turns, or when more than this share of the last 100 failed; none for never. Default: when every turn of the last 10 s, at least 20, failed. It counts while the load runs; how long to wait for a server that is not reached at the start is --ready-timeout."`
	Grace       *time.Duration `group:"Stop" placeholder:"TIME" help:"How long running turns may finish after the stop (default: 30s; after --requests until --timeout has ended them)."`
	Timeout     time.Duration  `group:"Stop" default:"10m" help:"Limit of one turn in all; 0 is none."`
	IdleTimeout time.Duration  `group:"Stop" default:"2m" help:"Limit of one silence in a stream; 0 is none."`
	Deadline    time.Duration  `group:"Stop" help:"Limit of the whole run."`
	Cancel      string         `group:"Stop" placeholder:"SHARE:TIME" help:"Give up this share of the turns so long after their start, as users do who have read enough: 5%:2s. Their rows are abandoned, which is no failure, and their conversations go on."`
	KeepGoing   bool           `group:"Stop" help:"A failed turn does not end its conversation."`
	Retries     int            `group:"Stop" help:"Send a failed request again up to this many times; every attempt is recorded."`
	Resume      bool           `group:"Stop" help:"Continue a run whose program was killed, from the journal next to the output. A run that was interrupted (exit code 130) has its rows written, and cannot be continued. A plan goes on either way, with the run that was cut short made anew."`

	History          string   `group:"Requests" default:"live" enum:"live,recorded" help:"Answers that go back into the history: the server's (live) or the dataset's (recorded)."`
	HistoryReasoning bool     `group:"Requests" help:"The server's reasoning goes back into the history too."`
	OutputTokens     string   `group:"Requests" default:"dataset" help:"Tokens to ask for: dataset, a number, or none."`
	IgnoreEOS        bool     `group:"Requests" name:"ignore-eos" help:"Ask for exactly that many, where the server can."`
	MinTokens        int64    `group:"Requests" placeholder:"N" help:"Ask for at least this many, where the server can."`
	Sampling         string   `group:"Requests" placeholder:"JSON" help:"Sampling parameters merged into each request, such as '{\"temperature\":0}'."`
	ExtraBody        string   `group:"Requests" placeholder:"JSON" help:"Further fields merged into each request."`
	Header           []string `group:"Requests" sep:"none" placeholder:"NAME:TEXT" help:"Request header (NAME: TEXT or NAME=TEXT), with {conversation}, {turn}, {request}, {run}, {instance} filled in. Repeatable. The text is in no file."`
	BodyField        []string `group:"Requests" sep:"none" placeholder:"NAME=TEXT" help:"Field of the request's body, with the same places. Repeatable."`
	EchoHeader       []string `group:"Requests" sep:"none" placeholder:"NAME" help:"Response header to send back with the conversation's next request. Repeatable."`
	Cookies          bool     `group:"Requests" help:"Keep a cookie jar per conversation."`
	APIKeyEnv        string   `group:"Requests" name:"api-key-env" default:"OPENAI_API_KEY" placeholder:"NAME" help:"Environment variable that holds the API key (${default})."`
	APIKeyFile       string   `group:"Requests" name:"api-key-file" type:"path" placeholder:"FILE" help:"File that holds the API key; read again when it changes."`
	Salt             bool     `group:"Requests" help:"Put a text before each conversation that is this run's own, and another in each pass over the dataset, so that no earlier run or pass fills the cache."`
	FlushCache       bool     `group:"Requests" help:"Have the server forget its prefix cache first, and look whether it did."`
	SaveText         bool     `group:"Requests" help:"Keep the answers in a column."`
	VerifyOutput     string   `group:"Requests" type:"path" placeholder:"FILE" help:"Ask for temperature 0, and count the answers that differ from those of this first run (made with --save-text). With --history recorded a difference does not change later prompts."`

	CAFile         string        `group:"Connection" name:"ca-file" type:"path" placeholder:"FILE" help:"Certificates to trust besides the system's."`
	Insecure       bool          `group:"Connection" help:"Do not verify the server's certificate."`
	ClientCert     string        `group:"Connection" type:"path" placeholder:"FILE" help:"Certificate (PEM) to show to a server that asks for one, with its key in --client-key."`
	ClientKey      string        `group:"Connection" type:"path" placeholder:"FILE" help:"Key (PEM) of the client's certificate."`
	HTTP2          bool          `group:"Connection" name:"http2" help:"Speak HTTP/2."`
	Proxy          string        `group:"Connection" placeholder:"URL" help:"Go through this proxy."`
	Path           string        `group:"Connection" placeholder:"PATH" help:"Path that requests ask for on the server, such as /v1/chat/completions (default: made from --api and the URL, which may be the whole endpoint)."`
	UnixSocket     string        `group:"Connection" type:"path" placeholder:"PATH" help:"Connect to this Unix socket instead of the URL's host."`
	Preconnect     int           `group:"Connection" default:"0" help:"Connections to make before the load; 0 is as many as a closed loop needs, -1 is none."`
	ConnectTimeout time.Duration `group:"Connection" default:"30s" help:"Limit of one connection's making: name look-up, connect, TLS."`
	KeepIdle       time.Duration `group:"Connection" default:"4s" help:"How long an idle connection is used again; servers close theirs, often after 5 s."`
	NewConnections bool          `group:"Connection" help:"Make a new connection for each request, where the cost of connections is the question."`
	ReadyTimeout   time.Duration `group:"Connection" default:"5m" help:"How long to wait for a server that is still loading."`
	NoProbe        bool          `group:"Connection" help:"Do not try out beforehand which request parameters the server takes."`
	UserClock      bool          `group:"Connection" help:"Do not use the kernel's time stamps."`

	Scrape         []string      `group:"Telemetry" sep:"none" placeholder:"URL" help:"Metrics page to record (default: the server's /metrics if there; none for none). Repeatable."`
	ScrapeInterval time.Duration `group:"Telemetry" default:"1s" help:"How often."`
	Metrics        string        `group:"Telemetry" placeholder:"ADDR" help:"Serve the run's figures to Prometheus while it goes on, at /metrics of this address, such as :9100."`
	Traceparent    bool          `group:"Telemetry" help:"Tell the server a trace and a span for each request (header traceparent, W3C): a trace per conversation, a span per turn. Rows have both."`
	OTLP           string        `group:"Telemetry" name:"otlp" placeholder:"URL" help:"Send a span per turn and conversation, and histograms, to this receiver of OpenTelemetry (OTLP over HTTP; conventions of generative AI, 1.41.0), such as http://127.0.0.1:4318. Headers come from $OTEL_EXPORTER_OTLP_HEADERS."`
	Calibrate      bool          `group:"Telemetry" help:"Afterwards, measure what this client adds at this load, against the simulated server."`

	Shard   string `group:"Schedule" placeholder:"I/N" help:"Replay every Nth conversation of the same schedule, from the Ith."`
	StartAt string `group:"Schedule" placeholder:"TIME" help:"Start at this time (RFC 3339), with the other shards."`
	Seed    uint64 `group:"Schedule" default:"0" help:"Seed of the schedule."`
	DryRun  bool   `group:"Schedule" help:"Print the schedule and what it would ask for, and send nothing."`

	twin *twin.Fit `kong:"-"` // what is known of the simulated server, if it is like a real one
}

// Help is shown below the flags.
func (replayCommand) Help() string {
	return `Examples:

  parley replay chat.parquet --url http://127.0.0.1:8000 -o run.parquet --concurrency 64
  parley replay chat.parquet --url http://127.0.0.1:8000 -o run.parquet --rate 5 --duration 10m
  parley replay chat.parquet --url 'sim:?prefill=20000&itl=12ms&slots=64' -o run.parquet --concurrency 64
  parley replay chat.parquet --url http://a:8000 --url http://b:8000 -o run.parquet \
      --concurrency 64 --header 'X-Session-ID: {conversation}'
  parley replay chat.parquet --url http://a:8000 -o run.parquet --concurrency 64 \
      --traceparent --otlp http://127.0.0.1:4318 --metrics :9100 --scrape http://a:9400/metrics

Plans of several runs, and what they say together:

  parley replay chat.parquet --url http://127.0.0.1:8000 -o runs/ --concurrency 1,2,4,8,16 --repeat 3 --duration 2m --salt
  parley replay chat.parquet --url http://a:8000 --b-profile b.yaml -o ab/ --concurrency 16 --repeat 6 --duration 2m
  parley replay chat.parquet --url http://127.0.0.1:8000 -o capacity/ --find concurrency --objective 'ttft.p99<500ms'
  parley analyze runs/ --html report.html

Every planned turn becomes one row of the output. While the run goes on, the rows stand in
OUTPUT.journal, which parley analyze reads too; a killed run loses at most its last second, and --resume
continues it. The first Ctrl-C lets running turns finish, the second stops them: either way the rows are
written to the output, and there is nothing to continue. The third ends the program at once, as a kill does.`
}

// config gives the run's configuration. Simulated servers are not started yet.
func (c *replayCommand) config() (replay.Config, error) {
	var problems []error
	cfg := replay.Config{
		Dataset: strings.Join(c.Dataset, " "), Output: c.Output, Resume: c.Resume, RunID: c.RunID, Label: c.Label,
		URLs: c.URL, API: c.API, Model: c.Model,
		Arrivals: c.Arrivals, WhenFull: c.WhenFull,
		Think: c.Think, ThinkCap: c.ThinkCap, ToolTime: c.ToolTime, Ramp: c.Ramp, Stagger: c.Stagger, Warmup: c.Warmup, WarmupTime: c.WarmupTime,
		Duration: c.Duration, MinDuration: c.MinDuration, MaxErrors: c.MaxErrors, Timeout: orNone(c.Timeout),
		IdleTimeout: orNone(c.IdleTimeout), Deadline: c.Deadline, KeepGoing: c.KeepGoing, Retries: c.Retries,
		History: c.History, HistoryReasoning: c.HistoryReasoning, OutputTokens: c.OutputTokens,
		IgnoreEOS: c.IgnoreEOS, MinTokens: c.MinTokens, Sampling: c.Sampling, ExtraBody: c.ExtraBody,
		Headers: headers(c.Header), BodyFields: c.BodyField, EchoHeaders: c.EchoHeader, Cookies: c.Cookies,
		Salt: c.Salt, FlushCache: c.FlushCache, SaveText: c.SaveText,
		CAFile: c.CAFile, Insecure: c.Insecure, HTTP2: c.HTTP2, Proxy: c.Proxy, UnixSocket: c.UnixSocket, Path: c.Path,
		ClientCert: c.ClientCert, ClientKey: c.ClientKey, KeepIdle: orNone(c.KeepIdle), ConnectTimeout: orNone(c.ConnectTimeout),
		NewConnections: c.NewConnections, Cancel: c.Cancel, VerifyOutput: c.VerifyOutput, APIKeyFile: c.APIKeyFile,
		Preconnect: c.Preconnect, ReadyLimit: orNone(c.ReadyTimeout), NoProbe: c.NoProbe, UserClock: c.UserClock,
		Scrape: c.Scrape, ScrapeInterval: c.ScrapeInterval, Metrics: c.Metrics, Traceparent: c.Traceparent,
		OTLP: c.OTLP, OTLPHeaders: os.Getenv("OTEL_EXPORTER_OTLP_HEADERS"),
		Shard: c.Shard, Seed: c.Seed,
	}
	if c.Grace != nil {
		cfg.Grace = orNone(*c.Grace)
	}
	for _, l := range []struct {
		flag  string
		given *string
		to    *[]load.Stage
	}{{"concurrency", c.Concurrency, &cfg.ConcurrencyStages}, {"rate", c.Rate, &cfg.RateStages}} {
		if l.given == nil {
			continue
		}
		var err error
		if *l.to, err = load.ParseStages(*l.given); err != nil {
			problems = append(problems, fmt.Errorf("--%s: %w", l.flag, err))
		}
	}
	// A single level is no stage.
	if st := cfg.ConcurrencyStages; len(st) == 1 && st[0].For == 0 && st[0].Level == math.Trunc(st[0].Level) {
		level := int(st[0].Level)
		positive(&problems, "concurrency", &level, &cfg.Concurrency)
		cfg.ConcurrencyStages = nil
	}
	if st := cfg.RateStages; len(st) == 1 && st[0].For == 0 {
		cfg.Rate, cfg.RateStages = &st[0].Level, nil
	}
	positive(&problems, "max-conversations", c.MaxConversations, &cfg.MaxConversations)
	positive(&problems, "max-in-flight", c.MaxInFlight, &cfg.MaxInFlight)
	positive(&problems, "requests", c.Requests, &cfg.Requests)
	positive(&problems, "loops", c.Loops, &cfg.Loops)
	positive(&problems, "burstiness", c.Burstiness, &cfg.Burstiness)
	positive(&problems, "speed", c.Speed, &cfg.Speed)
	if c.StartAt != "" {
		at, err := time.Parse(time.RFC3339Nano, c.StartAt)
		if err != nil {
			problems = append(problems, fmt.Errorf("--start-at: %q is no time such as 2026-01-02T15:04:05Z", c.StartAt))
		}
		cfg.StartAt = at
	}
	if c.APIKeyFile == "" { // the key is never an argument, which every user of a machine can see
		cfg.APIKey, cfg.APIKeyEnv = os.Getenv(c.APIKeyEnv), c.APIKeyEnv
		if _, set := os.LookupEnv(c.APIKeyEnv); !set && c.APIKeyEnv != "OPENAI_API_KEY" {
			problems = append(problems, fmt.Errorf("--api-key-env: the environment variable %s is not set", c.APIKeyEnv))
		}
	}
	return cfg, errors.Join(problems...)
}

// positive takes a number that was given over into the configuration, where 0 means that none was.
func positive[N int | int64 | float64](problems *[]error, flag string, given, to *N) {
	if given == nil {
		return
	}
	if !(*given > 0) {
		*problems = append(*problems, fmt.Errorf("--%s: %v: has to be positive", flag, *given))
		return
	}
	*to = *given
}

// orNone maps a limit of 0, which on the command line means none.
func orNone(d time.Duration) time.Duration {
	if d == 0 {
		return replay.None
	}
	return d
}

// headers takes both NAME: TEXT and NAME=TEXT.
func headers(given []string) []string {
	var list []string
	for _, h := range given {
		colon, equals := strings.Index(h, ":"), strings.Index(h, "=")
		if equals >= 0 && (colon < 0 || equals < colon) {
			h = h[:equals] + ":" + h[equals+1:]
		}
		list = append(list, h)
	}
	return list
}
