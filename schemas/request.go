package schemas

// Status says how a planned turn ended. Every planned turn is one row with one of these.
type Status string

const (
	StatusOK             Status = "ok"              // finished, with tokens and a finish reason or terminal event
	StatusHTTPError      Status = "http_error"      // a response with a status other than 2xx
	StatusStreamError    Status = "stream_error"    // an error inside a 2xx response
	StatusTransportError Status = "transport_error" // DNS, connect, TLS, write or read failed
	StatusTimeout        Status = "timeout"         // the turn's or the silence's limit passed
	StatusIncomplete     Status = "incomplete"      // the stream ended without a finish reason
	StatusEmpty          Status = "empty"           // finished without one token
	StatusCanceled       Status = "canceled"        // the run stopped, or the client was suspended, while the turn was in flight
	StatusAbandoned      Status = "abandoned"       // its user left it before it ended, as --cancel asked
	StatusShed           Status = "shed"            // not sent: the run's limit of conversations was full
	StatusNotReached     Status = "not_reached"     // not sent: the run stopped, or an earlier turn failed
)

// Statuses lists every status, in the order in which reports show them.
var Statuses = []Status{
	StatusOK, StatusHTTPError, StatusStreamError, StatusTransportError, StatusTimeout,
	StatusIncomplete, StatusEmpty, StatusCanceled, StatusAbandoned, StatusShed, StatusNotReached,
}

// Sent says whether a turn of this status reached the point of being attempted.
func (s Status) Sent() bool { return s != StatusShed && s != StatusNotReached }

// Failed says whether the status counts as an error of the server or of the way to it. A turn that the
// run itself stopped, abandoned, shed or never reached is not one.
func (s Status) Failed() bool {
	switch s {
	case StatusHTTPError, StatusStreamError, StatusTransportError, StatusTimeout, StatusIncomplete, StatusEmpty:
		return true
	}
	return false
}

// Phases of a run.
const (
	PhaseWarmup = "warmup"
	PhaseMain   = "main"
)

// Sources of the token counts of a row, best first.
const (
	TokensFromUsage      = "usage"      // the server's final usage
	TokensFromContinuous = "continuous" // the last of the cumulative usages that came before the stream broke
	TokensFromTokenizer  = "tokenizer"  // the local tokenizer over the whole text, after the run
	TokensFromChunks     = "chunks"     // the number of token-bearing chunks
)

// Request is one row of a requests file: one planned turn, whatever happened to it. Moments are
// nanoseconds since the run's origin, which the footer's metadata gives in UTC; a moment that never came
// is null.
type Request struct {
	RunID          string  `parquet:"run_id,dict" doc:"The run, the same for all its shards."`
	RequestID      string  `parquet:"request_id,zstd" doc:"Identifier of the row, unique in the run; sent as X-Request-ID."`
	ConversationID string  `parquet:"conversation_id,zstd" doc:"The conversation in the dataset."`
	Instance       int64   `parquet:"instance" doc:"Which copy of the conversation this is: 0, then 1, 2, ... when a dataset is looped."`
	Turn           int64   `parquet:"turn" doc:"Turn index in the conversation, from 0."`
	Phase          string  `parquet:"phase,dict" doc:"warmup or main."`
	Shard          int64   `parquet:"shard" doc:"Which shard of the run sent it."`
	URL            string  `parquet:"url,dict" doc:"The target's base URL, without credentials."`
	API            string  `parquet:"api,dict" doc:"chat, completions, responses, anthropic or ollama."`
	Model          string  `parquet:"model,dict" doc:"The model asked for."`
	ResponseID     *string `parquet:"response_id,optional,zstd" doc:"The identifier that the server gave its response."`
	TraceID        *string `parquet:"trace_id,optional,zstd" since:"1.1" doc:"The trace of its conversation (W3C trace context, hexadecimal), with --traceparent or --otlp."`
	SpanID         *string `parquet:"span_id,optional,zstd" since:"1.1" doc:"The span of this request in that trace: the parent of what the server traces."`
	RootID         *string `parquet:"root_id,optional,zstd" doc:"The conversation that starts the tree which this one belongs to: its own conversation_id if it starts by itself; null in files before version 1.1."`
	ParentID       *string `parquet:"parent_id,optional,zstd" doc:"The conversation that started this one; null for one that starts by itself."`
	ParentTurn     *int64  `parquet:"parent_turn,optional" doc:"The turn of that conversation which started this one."`
	JoinedID       *string `parquet:"joined_id,optional,zstd" doc:"Of the conversations that the turn joins, the one whose end decided when it could go; null where the own previous turn's end did."`
	Stage          *int64  `parquet:"stage,optional" doc:"The load's stage in which the turn started, from 0; null in a run without stages and for a turn that never started."`
	Resumed        bool    `parquet:"resumed" doc:"Sent by a run that continued an interrupted one."`

	Status       string  `parquet:"status,dict" doc:"ok, http_error, stream_error, transport_error, timeout, incomplete, empty, canceled, abandoned, shed or not_reached."`
	HTTPStatus   *int64  `parquet:"http_status,optional" doc:"Status code of the last response."`
	ErrorKind    *string `parquet:"error_kind,optional,dict" doc:"What kind of failure, in one word: connect_refused, reset, idle_timeout, overloaded, ..."`
	ErrorMessage *string `parquet:"error_message,optional,zstd" doc:"The failure in words, the server's where it gave any."`
	FinishReason *string `parquet:"finish_reason,optional,dict" doc:"The server's finish reason: stop, length, tool_calls, ..."`
	SawDone      bool    `parquet:"saw_done" doc:"The stream's end marker came ([DONE] or a terminal event)."`
	Streamed     *bool   `parquet:"streamed,optional" doc:"The response was a stream; null without a response."`
	Attempts     int64   `parquet:"attempts" doc:"How many times the request was sent, retries and replays on a fresh connection included."`
	StaleReplays int64   `parquet:"stale_replays" doc:"How many of these were replays after a kept-alive connection turned out to be closed; not the server's failure."`
	TimingNote   *string `parquet:"timing_note,optional,dict" doc:"Why the moments are less exact than usual: gzip, http2, user_clock, ...; null when they are."`

	ScheduledNS   *int64  `parquet:"scheduled_ns,optional" unit:"ns" doc:"The turn was meant to go: the arrival process for turn 0, previous end plus think time for later ones."`
	ReadyNS       *int64  `parquet:"ready_ns,optional" unit:"ns" doc:"It could go: its slot and its predecessor were there."`
	InFlightNS    *int64  `parquet:"in_flight_wait_ns,optional" unit:"ns" doc:"How long of the time before ready_ns the turn waited for --max-in-flight; null without that limit."`
	StartNS       *int64  `parquet:"start_ns,optional" unit:"ns" doc:"The client began the first attempt, before it had a connection."`
	AttemptNS     []int64 `parquet:"attempt_ns,list" parquet-element:",delta" since:"1.1" unit:"ns" doc:"When each attempt began, as many as attempts says; sent_ns and what follows are of the last one."`
	SentNS        *int64  `parquet:"sent_ns,optional" unit:"ns" doc:"A connection was there and the first byte was handed to the kernel."`
	WroteNS       *int64  `parquet:"wrote_ns,optional" unit:"ns" doc:"The last byte of the request was handed to the kernel."`
	FirstByteNS   *int64  `parquet:"first_byte_ns,optional" unit:"ns" doc:"The first byte of the response arrived."`
	FirstEventNS  *int64  `parquet:"first_event_ns,optional" unit:"ns" doc:"The first data event arrived, a role-only chunk included."`
	FirstTokenNS  *int64  `parquet:"first_token_ns,optional" unit:"ns" doc:"The first event that proves a token arrived: content, reasoning, refusal or tool-call data, or a rise of completion_tokens."`
	FirstAnswerNS *int64  `parquet:"first_answer_ns,optional" unit:"ns" doc:"The first event with answer (not reasoning) content arrived."`
	LastTokenNS   *int64  `parquet:"last_token_ns,optional" unit:"ns" doc:"The last event that proves a token arrived; a usage-only chunk is none."`
	DoneNS        *int64  `parquet:"done_ns,optional" unit:"ns" doc:"The stream ended: [DONE], terminal event, end of file, error or deadline."`
	DNSNS         *int64  `parquet:"dns_ns,optional" unit:"ns" doc:"Duration of the name look-up; null on a reused connection."`
	ConnectNS     *int64  `parquet:"connect_ns,optional" unit:"ns" doc:"Duration of the TCP connect; null on a reused connection."`
	TLSNS         *int64  `parquet:"tls_ns,optional" unit:"ns" doc:"Duration of the TLS handshake; null on a reused connection or without TLS."`
	ConnReused    *bool   `parquet:"conn_reused,optional" doc:"The connection had carried a request before; null if there was none."`

	MessagesSent  int64 `parquet:"messages_sent" doc:"Messages in the request."`
	BytesSent     int64 `parquet:"bytes_sent" unit:"bytes" doc:"Bytes of the request, headers included, as handed to the transport."`
	BytesReceived int64 `parquet:"bytes_received" unit:"bytes" doc:"Bytes of the response, headers and framing included, as the transport gave them."`
	Reads         int64 `parquet:"reads" doc:"Reads from the connection that brought the response."`
	Events        int64 `parquet:"events" doc:"Data events of the stream."`
	Comments      int64 `parquet:"comments" doc:"Comment lines of the stream (keep-alives)."`

	PromptTokens         *int64   `parquet:"prompt_tokens,optional" unit:"tokens" doc:"Tokens of the prompt, cached ones included, as the server counted."`
	CachedTokens         *int64   `parquet:"cached_tokens,optional" unit:"tokens" doc:"Prompt tokens that the server took from its prefix cache; null where it does not say."`
	CompletionTokens     *int64   `parquet:"completion_tokens,optional" unit:"tokens" doc:"Tokens of the answer, reasoning included."`
	ReasoningTokens      *int64   `parquet:"reasoning_tokens,optional" unit:"tokens" doc:"Reasoning tokens among them; null where the server does not say."`
	TokenSource          *string  `parquet:"token_source,optional,dict" doc:"Where completion_tokens comes from: usage, continuous, tokenizer or chunks."`
	OutputTokensAsked    *int64   `parquet:"output_tokens_asked,optional" unit:"tokens" doc:"Tokens that the request asked for; null if it set no limit."`
	NewTokens            *int64   `parquet:"new_tokens,optional" unit:"tokens" doc:"The dataset's count of the tokens that are new in this turn."`
	ExpectedPromptTokens *int64   `parquet:"expected_prompt_tokens,optional" unit:"tokens" doc:"The dataset's count of the prompt's tokens."`
	ExpectedCachedTokens *int64   `parquet:"expected_cached_tokens,optional" unit:"tokens" doc:"The dataset's ceiling: prompt tokens that an infinite prefix cache would hold."`
	ThinkTimeMS          *float64 `parquet:"think_time_ms,optional" unit:"ms" doc:"Think time that was scheduled before this turn: a person's."`
	ToolTimeMS           *float64 `parquet:"tool_time_ms,optional" unit:"ms" doc:"Tool time that was scheduled before this turn, besides the think time; null where the dataset has none."`
	WaitJoinMS           *float64 `parquet:"wait_join_ms,optional" unit:"ms" doc:"How long after the end of its own previous turn the last of the conversations that the turn joins ended (its think and tool times begin then); null for a turn that joins none."`

	ChunkNS     []int64 `parquet:"chunk_ns,list" parquet-element:",delta" unit:"ns" doc:"Arrival of each token-bearing chunk."`
	ChunkTokens []int64 `parquet:"chunk_tokens,list" parquet-element:",delta" unit:"tokens" doc:"Tokens that each of these chunks carried, by continuous usage; empty where the server does not say."`

	TTFTMS    *float64 `parquet:"ttft_ms,optional" unit:"ms" doc:"Time to first token: first_token - sent."`
	E2EMS     *float64 `parquet:"e2e_ms,optional" unit:"ms" doc:"End-to-end latency: last_token - sent."`
	TPOTMS    *float64 `parquet:"tpot_ms,optional" unit:"ms" doc:"Time per output token: (last_token - first_token) / (completion_tokens - first chunk's tokens); null unless a later chunk carried a token."`
	SendLagMS *float64 `parquet:"send_lag_ms,optional" unit:"ms" doc:"How late the last attempt went: sent - scheduled (waiting for a slot, the scheduler and a connection; of a turn that was sent again, failed attempts and the back-off after them too: attempt_ns tells when the first began)."`

	Text          *string           `parquet:"text,optional,zstd" doc:"The answer's text, when --save-text asked for it."`
	ReasoningText *string           `parquet:"reasoning_text,optional,zstd" doc:"The reasoning's text, when --save-text asked for it."`
	ToolCalls     *string           `parquet:"tool_calls,optional,zstd" since:"1.1" doc:"The answer's tool calls (a JSON array in the form of OpenAI), when --save-text asked for it."`
	OutputSame    *bool             `parquet:"output_same,optional" since:"1.1" doc:"The answer equals that of the same turn in the run which --verify-output names; null where there was nothing to compare."`
	PrefixGroup   *string           `parquet:"prefix_group,optional,dict" doc:"The conversation's prefix group."`
	Tags          map[string]string `parquet:"tags" doc:"The conversation's tags."`
}

// Derive fills the derived columns from the moments and counts.
func (r *Request) Derive() {
	ms := func(from, to *int64) *float64 {
		if from == nil || to == nil {
			return nil
		}
		v := float64(*to-*from) / 1e6
		return &v
	}
	r.TTFTMS = ms(r.SentNS, r.FirstTokenNS)
	r.E2EMS = ms(r.SentNS, r.LastTokenNS)
	r.SendLagMS = ms(r.ScheduledNS, r.SentNS)
	r.TPOTMS = nil
	if r.CompletionTokens != nil && len(r.ChunkNS) > 1 {
		if later := *r.CompletionTokens - r.FirstChunkTokens(); later > 0 {
			v := float64(r.ChunkNS[len(r.ChunkNS)-1]-r.ChunkNS[0]) / 1e6 / float64(later)
			r.TPOTMS = &v
		}
	}
}

// FirstChunkTokens gives the tokens of the first token-bearing chunk: the server's count where it sent
// one with each chunk, else 1.
func (r *Request) FirstChunkTokens() int64 {
	if len(r.ChunkTokens) > 0 && r.ChunkTokens[0] > 0 {
		return r.ChunkTokens[0]
	}
	return 1
}
