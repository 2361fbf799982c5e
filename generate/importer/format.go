package importer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"parley/generate/chatshape"
)

// Format is what the records of a file are. In what kind of file they come (a JSON array, JSON lines, Parquet,
// CSV) makes no difference.
type Format string

// The formats.
const (
	Auto          Format = "auto"            // told by content
	Chat          Format = "chat"            // conversations in any shape that package chatshape knows
	Conversations Format = "conversations"   // a dataset of parley's own
	Mooncake      Format = "mooncake"        // requests with hashes of blocks, 512 tokens where nothing tells otherwise
	Qwen          Format = "qwen"            // Qwen-Bailian: the same with chats and parents, 16-token blocks
	Agent         Format = "agent"           // traces of coding agents, one JSON object each
	AIPerf        Format = "aiperf"          // sessions of turns with text, or single turns
	AIPerfRaw     Format = "aiperf-mooncake" // AIPerf's Mooncake variant: one turn per line
	Azure         Format = "azure"           // Azure's LLM inference traces: arrivals and lengths
	BurstGPT      Format = "burstgpt"        // BurstGPT: the same with sessions
)

// formats are all formats, in the order in which a record is compared with them: the first that matches is
// its format.
var formats = []struct {
	format  Format
	matches func(r *chatshape.Reader, keys map[string]byte) bool
	open    func(im *Importer, src *source) (reader, error)
}{
	{Agent, all("requests", "block_size|tool_tokens|models"), newAgent},
	{Qwen, all("chat_id", "hash_ids"), newQwen},
	{AIPerf, all("session_id", "turns"), newAIPerf},
	{AIPerfRaw, all("text_input"), newAIPerfRaw},
	{AIPerfRaw, all("input_length", "session_id|delay"), newAIPerfRaw},
	{Mooncake, all("hash_ids"), newMooncake},
	{Mooncake, all("input_length", "timestamp"), newMooncake},
	{Azure, all("contexttokens", "generatedtokens"), newAzure},
	{BurstGPT, all("requesttokens", "responsetokens"), newBurst},
	{Chat, (*chatshape.Reader).Matches, newChats},
	{AIPerf, all("text|texts", "output_length|timestamp|delay|image|images|extra"), newAIPerf}, // a turn alone
	{Conversations, func(*chatshape.Reader, map[string]byte) bool { return false }, newRows},
}

// all matches records that have each of the keys; a bar stands between those of which one is enough.
func all(names ...string) func(*chatshape.Reader, map[string]byte) bool {
	return func(_ *chatshape.Reader, keys map[string]byte) bool {
		return !slices.ContainsFunc(names, func(choice string) bool {
			return !slices.ContainsFunc(strings.Split(choice, "|"), func(k string) bool { _, ok := keys[k]; return ok })
		})
	}
}

// ParseFormat gives the format of that name; the empty name is Auto.
func ParseFormat(name string) (Format, error) {
	if name == "" || name == string(Auto) {
		return Auto, nil
	}
	names := []string{string(Auto)}
	for _, f := range formats {
		if name == string(f.format) {
			return f.format, nil
		}
		if !slices.Contains(names, string(f.format)) {
			names = append(names, string(f.format))
		}
	}
	return "", fmt.Errorf("format %q is not known; there are %s", name, strings.Join(names, ", "))
}

// formatOf tells a format by the names of a record's fields.
func formatOf(r *chatshape.Reader, keys map[string]byte) (Format, error) {
	if len(r.Columns) > 0 {
		return Chat, nil
	}
	plain := map[string]byte{}
	for k, v := range keys {
		plain[k], plain[plainName(k)] = v, v
	}
	for _, f := range formats {
		if f.matches(r, plain) {
			return f.format, nil
		}
	}
	if len(keys) == 0 {
		return "", fmt.Errorf("it does not begin with an object of a known format; say what its fields are with --column, or see --format")
	}
	return "", fmt.Errorf("no format has records with the fields %s; name those of a chat with --column, as in --column messages=NAME",
		strings.Join(slices.Sorted(maps.Keys(keys)), ", "))
}

// plainName gives a name in lower case and without spaces and underscores, as the columns of CSV traces are
// compared.
func plainName(s string) string {
	return strings.NewReplacer(" ", "", "_", "", `"`, "").Replace(strings.ToLower(strings.TrimSpace(s)))
}

// peekSize is how much of a file is looked at to tell its format. The first record may be long (a
// coding-agent trace is one object), but the keys that tell it come early.
const peekSize = 256 << 10

// keysOf gives the fields of the first record of a JSON file that may be cut off, each with the first byte of
// its value.
func keysOf(text []byte) map[string]byte {
	keys := map[string]byte{}
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimLeft(text, " \t\r\n[")))
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
		switch {
		case depth == 0:
			return keys // the file does not begin with an object
		case depth > 1:
		case wantKey:
			key, _ = tok.(string)
			keys[key] = 0
			wantKey = false
		default:
			keys[key], key, wantKey = 's', "", true
		}
	}
}
