package api

import "encoding/json"

// Params are what a request says besides its messages. The zero value asks for a whole (not streamed)
// answer of the server's own length.
type Params struct {
	Model  string
	Stream bool

	// IncludeUsage asks for a usage at the end of a stream, ContinuousUsage for one with every chunk
	// (chat and completions; other APIs send theirs unasked).
	IncludeUsage    bool
	ContinuousUsage bool

	OutputTokens int64  // the limit of output tokens; 0 sets none
	TokenLimit   string // the limit's name; "" means the API's usual one
	IgnoreEOS    bool   // ask for exactly OutputTokens, where the server can; nothing without a limit
	MinTokens    int64  // 0 sets none; sent as no more than OutputTokens
	Seed         *int64
	Temperature  *float64

	// Body is a JSON object of the source's parameters for this request alone, laid over HistoryOptions.Body;
	// "" for none.
	Body string

	// Extra is a JSON object whose members win over everything above. It must not set the messages or
	// stream. Members of a later entry win over those of an earlier one.
	Extra []json.RawMessage

	// Fields are further string members of the body, such as session_id. They win over Extra.
	Fields []Field
}

// Field is one string member of a request's body.
type Field struct{ Name, Value string }

// HistoryOptions are what is the same for all requests of one conversation.
type HistoryOptions struct {
	// Salt is put before the text of the first message, so that no server's cache knows the prompt.
	Salt string
	// Tools are the tool definitions, a JSON array in OpenAI's chat form; "" for none. They are
	// rewritten for the APIs that want another form.
	Tools string
	// Body is a JSON object of the source's own request parameters; "" for none. Params win over it.
	// Members that parley itself decides (messages, stream, stream_options, n) are left out.
	Body string
	// KeepReasoning sends the reasoning of live answers back with the history. Without it only the
	// answer goes back.
	KeepReasoning bool
}
