package importer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
)

// Format is a kind of file that can be imported.
type Format string

// The formats.
const (
	Auto      Format = "auto"            // told by content
	ShareGPT  Format = "sharegpt"        // conversations of from and value
	OpenAI    Format = "openai"          // messages of role and content, an array or lines
	Batch     Format = "batch"           // OpenAI's batch requests
	Parquet   Format = "parquet"         // chats of Hugging Face, or a file of parley's own
	Questions Format = "questions"       // MT-Bench: turns without answers
	Mooncake  Format = "mooncake"        // requests with hashes of 512-token blocks
	Qwen      Format = "qwen"            // Qwen-Bailian: the same with chats and parents, 16-token blocks
	Agent     Format = "agent"           // traces of coding agents, one JSON object each
	AIPerf    Format = "aiperf"          // sessions of turns with text
	AIPerfRaw Format = "aiperf-mooncake" // AIPerf's Mooncake variant: one turn per line
	Azure     Format = "azure"           // CSV of Azure's LLM inference traces
	BurstGPT  Format = "burstgpt"        // CSV of BurstGPT
)

// Formats are all formats with a line of description, for help texts.
var Formats = []struct {
	Format Format
	Help   string
}{
	{ShareGPT, `ShareGPT JSON: [{"id","conversations":[{"from","value"}]}]`},
	{OpenAI, `OpenAI messages, JSON array or lines: {"id","messages":[{"role","content"}]}`},
	{Batch, `OpenAI batch lines: {"custom_id","method","url","body"}`},
	{Parquet, `Hugging Face chat Parquet, or a conversations file of parley`},
	{Questions, `MT-Bench lines: {"question_id","category","turns":["..."]}`},
	{Mooncake, `Mooncake trace lines: {"timestamp","input_length","output_length","hash_ids"}`},
	{Qwen, `Qwen-Bailian trace lines: {"chat_id","parent_chat_id","timestamp","hash_ids"}`},
	{Agent, `coding-agent traces: {"id","block_size","requests":[{"t","in","out","hash_ids"}]}`},
	{AIPerf, `AIPerf sessions: {"session_id","turns":[{"text","delay"}]}`},
	{AIPerfRaw, `AIPerf's Mooncake variant: one turn per line, with session_id, delay or text_input`},
	{Azure, `Azure trace CSV: TIMESTAMP,ContextTokens,GeneratedTokens`},
	{BurstGPT, `BurstGPT CSV: Timestamp,[Session ID,Elapsed time,]Model,Request tokens,...`},
}

// ParseFormat gives the format of that name; the empty name is Auto.
func ParseFormat(name string) (Format, error) {
	if name == "" || name == string(Auto) {
		return Auto, nil
	}
	var names []string
	for _, f := range Formats {
		if name == string(f.Format) {
			return f.Format, nil
		}
		names = append(names, string(f.Format))
	}
	return "", fmt.Errorf("format %q is not known; there are auto, %s", name, strings.Join(names, ", "))
}

// peekSize is how much of a file Detect wants to see. The first record may be long (a coding-agent trace
// is one object), but the keys that tell it come early.
const peekSize = 256 << 10

// Detect tells a format by the beginning of a file. The name is only for the error, which says what was
// seen.
func Detect(head []byte, name string) (Format, error) {
	if bytes.HasPrefix(head, []byte("PAR1")) {
		return Parquet, nil
	}
	text := bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	if len(text) == 0 {
		return "", fmt.Errorf("%s is empty", name)
	}
	if text[0] != '{' && text[0] != '[' {
		return detectCSV(text, name)
	}
	text = bytes.TrimLeft(bytes.TrimPrefix(text, []byte("[")), " \t\r\n")
	if len(text) == 0 || text[0] == ']' {
		return "", fmt.Errorf("%s holds no records", name)
	}
	keys := keysOf(text)
	if f := formatOf(keys); f != "" {
		return f, nil
	}
	var seen []string
	for k := range keys {
		seen = append(seen, k)
	}
	sort.Strings(seen)
	if len(seen) == 0 {
		return "", fmt.Errorf("%s begins as JSON, but not with an object of a known format; see --format", name)
	}
	return "", fmt.Errorf("%s: no format has records with the keys %s; see --format", name, strings.Join(seen, ", "))
}

func formatOf(keys map[string]byte) Format {
	has := func(k string) bool { _, ok := keys[k]; return ok }
	switch {
	case has("custom_id") && has("body"), has("body") && has("url"):
		return Batch
	case has("requests") && (has("block_size") || has("tool_tokens") || has("models")):
		return Agent
	case has("chat_id") && has("hash_ids"):
		return Qwen
	case has("messages"):
		return OpenAI
	case has("conversations"), has("conversation"), has("items"):
		return ShareGPT
	case has("session_id") && has("turns"):
		return AIPerf
	case has("text_input"), has("input_length") && (has("session_id") || has("delay")):
		return AIPerfRaw
	case has("hash_ids") || has("input_length") && has("timestamp"):
		return Mooncake
	case has("turns"):
		return Questions
	}
	return ""
}

func detectCSV(text []byte, name string) (Format, error) {
	line, _, _ := bytes.Cut(text[:min(len(text), 4096)], newline)
	cols := csvColumns(string(bytes.TrimRight(line, "\r")))
	has := func(k string) bool { _, ok := cols[k]; return ok }
	switch {
	case has("contexttokens") && has("generatedtokens"):
		return Azure, nil
	case has("requesttokens") && has("responsetokens"):
		return BurstGPT, nil
	}
	shown := string(line)
	if len(shown) > 80 {
		shown = shown[:80] + "..."
	}
	return "", fmt.Errorf("%s is neither JSON, Parquet nor a known CSV; it begins with %q", name, shown)
}

// csvColumns maps the names of a header, in lower case and without spaces and underscores, to their places.
func csvColumns(header string) map[string]int {
	cols := map[string]int{}
	for i, c := range strings.Split(header, ",") {
		c = strings.NewReplacer(" ", "", "_", "", `"`, "").Replace(strings.ToLower(strings.TrimSpace(c)))
		if _, twice := cols[c]; !twice {
			cols[c] = i
		}
	}
	return cols
}

// keysOf gives the top-level keys of an object that may be cut off, each with the first byte of its
// value.
func keysOf(object []byte) map[string]byte {
	keys := map[string]byte{}
	dec := json.NewDecoder(bytes.NewReader(object))
	depth, wantKey, key := 0, false, ""
	for {
		tok, err := dec.Token()
		if err != nil {
			return keys
		}
		if d, ok := tok.(json.Delim); ok {
			switch d {
			case '{', '[':
				if depth++; depth == 1 {
					if d != '{' {
						return keys
					}
					wantKey = true
				} else if depth == 2 && key != "" {
					keys[key], key, wantKey = byte(d), "", true
				}
			default:
				if depth--; depth == 0 {
					return keys
				}
			}
			continue
		}
		if depth != 1 {
			continue
		}
		if wantKey {
			key, _ = tok.(string)
			keys[key] = 0
			wantKey = false
			continue
		}
		keys[key], key, wantKey = 's', "", true
	}
}
