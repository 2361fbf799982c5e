package generate

import (
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"sync"

	"parley/generate/prose"
	"parley/schemas"
)

// tool is one of the tools that a coding agent has: what its definition says, and the argument that takes
// the free text of a synthetic call.
type tool struct {
	name, description, argument, explains string
}

var agentTools = []tool{
	{"read_file", "Reads a text file of the project and returns its lines with their numbers.", "path", "The file, relative to the root of the project."},
	{"write_file", "Writes a file of the project, and makes the folders on the way to it.", "content", "The whole new content of the file."},
	{"edit_file", "Replaces one passage of a file. The passage must occur exactly once.", "replacement", "The text that takes the place of the passage."},
	{"list_folder", "Lists the files of a folder with their sizes, folders first.", "folder", "The folder, relative to the root of the project."},
	{"search_text", "Searches the project for a regular expression and returns the lines that match, with their files.", "pattern", "The regular expression."},
	{"find_files", "Finds files by a pattern of their names.", "glob", "The pattern, where two stars stand for any folders."},
	{"run_command", "Runs a shell command in the project and returns what it printed and its exit code.", "command", "The command line."},
	{"run_tests", "Runs the tests that match a filter and returns the failures.", "filter", "Which tests to run."},
	{"apply_patch", "Applies a patch in unified form to the project, all of it or nothing.", "patch", "The patch."},
	{"fetch_page", "Fetches a page of documentation and returns its text.", "question", "What is looked for on the page."},
	{"note_plan", "Writes down the steps that are still to be done, for later in the session.", "steps", "The steps, one after the other."},
	{"ask_person", "Asks the person at the keyboard a question and waits for the answer.", "question", "The question."},
}

// minToolCall is the least number of tokens of an answer that calls a tool: its name, the JSON around the
// argument, and a few words in it.
const minToolCall = 24

// longToolCall is the length in tokens from which on an agent's call is one that writes.
const longToolCall = 64

// writingTools are those whose argument is code.
var writingTools = slices.DeleteFunc(slices.Clone(agentTools), func(t tool) bool {
	return t.name != "write_file" && t.name != "edit_file" && t.name != "apply_patch"
})

// toolDefinitions are the tools as a request carries them.
var toolDefinitions = sync.OnceValue(func() string {
	type object map[string]any
	list := make([]object, len(agentTools))
	for i, t := range agentTools {
		list[i] = object{"type": "function", "function": object{
			"name":        t.name,
			"description": t.description,
			"parameters": object{
				"type":                 "object",
				"properties":           object{t.argument: object{"type": "string", "description": t.explains}},
				"required":             []string{t.argument},
				"additionalProperties": false,
			},
		}}
	}
	text, _ := json.Marshal(list) // of texts
	return string(text)
})

// toolCall is what a tool's result refers to.
type toolCall struct{ id, name string }

// newToolCall makes an assistant's message that calls a tool, n tokens in all: the function's name and its
// arguments, each counted by itself.
// With code, long ones write code into files.
func newToolCall(p *prose.Prose, r *rand.Rand, n int, code bool) (toolCall, schemas.Message, error) {
	t, wrapped := agentTools[r.IntN(len(agentTools))], p.Wrapped
	if code && n >= longToolCall {
		t, wrapped = writingTools[r.IntN(len(writingTools))], p.WrappedCode
	}
	var id [12]byte
	for i := range id {
		id[i] = byte(r.Uint32())
	}
	c := toolCall{id: "call_" + hex.EncodeToString(id[:]), name: t.name}
	arguments, err := wrapped(r, `{"`+t.argument+`":"`, `"}`, n-p.Count(t.name))
	if err != nil {
		return c, schemas.Message{}, err
	}
	calls, err := json.Marshal([]schemas.ToolCall{{ID: c.id, Type: "function", Function: schemas.ToolFunction{Name: t.name, Arguments: arguments}}})
	if err != nil {
		return c, schemas.Message{}, err
	}
	text := string(calls)
	return c, schemas.Message{Role: "assistant", ToolCalls: &text}, nil
}
