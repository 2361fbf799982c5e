package schemas

// Conversation is one row of a conversations file.
type Conversation struct {
	ConversationID string            `parquet:"conversation_id" doc:"Identifier, unique in the file."`
	Messages       []Message         `parquet:"messages,list" doc:"The messages in order, as the Hugging Face ecosystem's messages column has them."`
	Tools          *string           `parquet:"tools,optional" doc:"Tool definitions (a JSON array) sent with every request of the conversation."`
	Turns          []Turn            `parquet:"turns,list" doc:"One entry per request that the conversation makes."`
	StartOffsetMS  *float64          `parquet:"start_offset_ms,optional" unit:"ms" doc:"Recorded arrival, from the start of the trace; null where the source has none."`
	ParentID       *string           `parquet:"parent_id,optional" doc:"The conversation that starts this one (a sub-agent's parent); null for one that starts by itself."`
	ParentTurn     *int64            `parquet:"parent_turn,optional" doc:"The parent's turn index whose start (or end, see parent_from) begins this conversation's start delay; null without a parent."`
	ParentDelayMS  *float64          `parquet:"parent_delay_ms,optional" unit:"ms" doc:"Time from the start (or end, see parent_from) of the parent's turn to this conversation's start, which --tool-time scales; null without a parent."`
	ParentFrom     *string           `parquet:"parent_from,optional" doc:"Where the parent's delay begins: start (also null) or end of the parent's turn; a sub-agent that the answer calls begins at its end."`
	PrefixGroup    *string           `parquet:"prefix_group,optional" doc:"Conversations with the same value share their first tokens."`
	Body           *string           `parquet:"body,optional" doc:"Request parameters of the source (a JSON object) merged into each request."`
	Tags           map[string]string `parquet:"tags" doc:"Labels to group by: source, language, ..."`
	Index          *int64            `parquet:"index,optional" doc:"Number of the conversation in the whole dataset, from 0: by it the parts of a dataset become one. From format 1.1 on."`
	ContentHash    *string           `parquet:"content_hash,optional" doc:"SHA-256 of all that the other columns but index say, in hexadecimal digits; the content hash of a dataset is the SHA-256 of these hashes, 32 bytes each, in the order of index. From format 1.1 on."`
}

// Values of ParentFrom: which moment of the parent's turn the delay counts from.
const (
	FromStart = "start"
	FromEnd   = "end"
)

// Message is one message of a conversation.
type Message struct {
	Role       string  `parquet:"role" doc:"system, developer, user, assistant or tool."`
	Content    *string `parquet:"content,optional" doc:"The text; null only with tool calls. With content_parts, their text joined."`
	Parts      *string `parquet:"content_parts,optional" doc:"Multi-part content (a JSON array, images by URL or data) exactly as it is to be sent; null for plain text."`
	Name       *string `parquet:"name,optional" doc:"The participant's or the tool's name."`
	ToolCallID *string `parquet:"tool_call_id,optional" doc:"The call that a tool message answers."`
	ToolCalls  *string `parquet:"tool_calls,optional" doc:"Tool calls of an assistant message (a JSON array in the form of OpenAI)."`
	Reasoning  *string `parquet:"reasoning_content,optional" doc:"What a recorded answer thought before it spoke: part of the answer's output tokens, sent back only where the history is to have reasoning. From format 1.1 on."`
}

// ToolCall is a call of [Message.ToolCalls], in the form of OpenAI's chat completions.
type ToolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"` // function
	Function ToolFunction `json:"function"`
}

// ToolFunction is what is called, with arguments as JSON text.
type ToolFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Turn is one request that a conversation makes: it sends the messages before MessageIndex (with the
// server's own answers in place of the recorded ones when the history is live) and asks for
// OutputTokens tokens.
type Turn struct {
	MessageIndex         int64    `parquet:"message_index" doc:"How many messages of the conversation come before the answer: the request sends messages[:message_index]."`
	NewTokens            *int64   `parquet:"new_tokens,optional" unit:"tokens" doc:"Tokens of the messages that are new in this turn (since the last answer)."`
	PromptTokens         *int64   `parquet:"prompt_tokens,optional" unit:"tokens" doc:"Tokens of the content of all messages sent, by the dataset's tokenizer, without the server's chat template."`
	OutputTokens         *int64   `parquet:"output_tokens,optional" unit:"tokens" doc:"Tokens of the answer to ask for; null leaves it to the server."`
	ThinkTimeMS          *float64 `parquet:"think_time_ms,optional" unit:"ms" doc:"Time that a person takes before this turn, from the end of the previous one or of the last conversation that it joins; null or 0 for the first."`
	ToolTimeMS           *float64 `parquet:"tool_time_ms,optional" unit:"ms" doc:"Time that tools take before this turn, besides the think time and from the same moment on; null where there is none."`
	Joins                []string `parquet:"joins,list" since:"1.1" doc:"Conversations, started by this one or its descendants, that must have ended before the turn may start."`
	ExpectedCachedTokens *int64   `parquet:"expected_cached_tokens,optional" unit:"tokens" doc:"Prompt tokens that an infinite prefix cache would hold already when conversations run in file order."`
	Body                 *string  `parquet:"body,optional" doc:"Request parameters of this turn alone (a JSON object), laid over the conversation's. From format 1.1 on."`
}

// DeriveTurns gives the turns of a list of messages that came without any: one before each assistant
// message, and one after a last user or tool message that has no answer. An assistant message that
// nothing precedes is history, not a turn.
func DeriveTurns(messages []Message) []Turn {
	var turns []Turn
	due := false // a user or tool message waits for an answer
	for i, m := range messages {
		switch m.Role {
		case "assistant":
			if due {
				turns = append(turns, Turn{MessageIndex: int64(i)})
			}
			due = false
		case "user", "tool":
			due = true
		}
	}
	if due {
		turns = append(turns, Turn{MessageIndex: int64(len(messages))})
	}
	return turns
}
