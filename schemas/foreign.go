package schemas

import (
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// Foreign is an open Parquet file of chats that parley did not make, in one of the shapes that are usual
// on Hugging Face:
//
//   - messages, conversation or conversations: a list of structs of role and content (or from and value),
//     or such a list as JSON text. LMSYS-Chat-1M and WildChat are of this shape; WildChat's time stamps of
//     messages become think times;
//   - data (or one of the above): a list of strings, of the user and the assistant in turn (UltraChat);
//   - prompt and response, or columns of like meaning, with or without a system prompt;
//   - turns, or a prompt that is a list of strings: questions without answers (MT-Bench). The place of each
//     missing answer but the last is an assistant message whose content is null.
type Foreign struct {
	path  string
	file  *os.File
	pq    *parquet.File
	shape shape
	nodes map[string]*fnode // top-level columns that are read, by their part in the shape
}

// RowError is a row of a foreign file that is no conversation. Reading can go on behind it.
type RowError struct {
	Path string
	Row  int64 // from 0
	Err  error
}

func (e *RowError) Error() string { return fmt.Sprintf("%s: row %d: %v", e.Path, e.Row, e.Err) }

// Unwrap gives what is wrong with the row.
func (e *RowError) Unwrap() error { return e.Err }

// shape says how the rows of a foreign file hold a conversation.
type shape int

const (
	shapeMessages  shape = iota // a list of messages, or of alternating strings
	shapePair                   // a prompt and a response
	shapeQuestions              // questions without answers
)

// Names of columns, best first.
var (
	messageColumns  = []string{"messages", "conversation", "conversations", "data", "dialog", "dialogue", "chat"}
	pairColumns     = [][2]string{{"prompt", "response"}, {"prompt", "completion"}, {"prompt", "answer"}, {"instruction", "response"}, {"instruction", "output"}, {"question", "response"}, {"question", "answer"}, {"query", "response"}, {"input", "output"}}
	questionColumns = []string{"turns", "prompt"}
	systemColumns   = []string{"system", "system_prompt"}
	idColumns       = []string{"conversation_id", "conversation_hash", "prompt_id", "question_id", "id", "uuid"}
	tagColumns      = []string{"source", "language", "model", "category", "task", "dataset", "type"}
	messageFields   = []string{"role", "from", "content", "value", "text", "name", "tool_calls", "tool_call_id", "timestamp"}
)

// OpenForeign opens a Parquet file of chats that parley did not make. Its error lists the columns that
// were found and what is wanted.
func OpenForeign(path string) (*Foreign, error) {
	file, pq, _, err := openParquet(path)
	if err != nil {
		return nil, err
	}
	f := &Foreign{path: path, file: file, pq: pq, nodes: map[string]*fnode{}}
	if err := f.plan(); err != nil {
		_ = file.Close() // the other error is the one to tell
		return nil, err
	}
	return f, nil
}

// plan finds out the shape and the columns.
func (f *Foreign) plan() (err error) {
	defer Guard(f.path, &err)
	schema := f.pq.Schema()
	fields := map[string]parquet.Field{}
	var names []string
	for _, c := range schema.Fields() {
		fields[strings.ToLower(c.Name())] = c
		names = append(names, c.Name())
	}
	take := func(part string, column string) bool {
		field, ok := fields[column]
		if !ok {
			return false
		}
		n := newNode(schema, field, nil, 0, 0, nil)
		if n == nil {
			return false
		}
		f.nodes[part] = n
		return true
	}
	found := false
	for _, name := range messageColumns {
		if field, ok := fields[name]; ok && !found {
			f.nodes["messages"] = newMessagesNode(schema, field)
			found = f.nodes["messages"] != nil
			f.shape = shapeMessages
		}
	}
	for _, pair := range pairColumns {
		if !found && fields[pair[0]] != nil && fields[pair[1]] != nil {
			found = take("prompt", pair[0]) && take("response", pair[1])
			f.shape = shapePair
			if pair[0] == "instruction" {
				take("input", "input") // Alpaca: what the instruction is about
			}
		}
	}
	for _, name := range questionColumns {
		if !found && take("questions", name) {
			found = f.nodes["questions"].element() != nil
			f.shape = shapeQuestions
		}
	}
	if !found {
		return fmt.Errorf("%s is no chat dataset: its columns are %s; wanted are one of %s with a list of messages, or prompt and response, or turns",
			f.path, strings.Join(names, ", "), strings.Join(messageColumns, ", "))
	}
	take("tools", "tools")
	for _, name := range systemColumns {
		if f.nodes["system"] == nil {
			take("system", name)
		}
	}
	for _, name := range idColumns {
		if f.nodes["id"] == nil && fields[name] != nil && fields[name].Leaf() {
			take("id", name)
		}
	}
	for _, name := range tagColumns {
		if fields[name] != nil && fields[name].Leaf() {
			take("tag "+name, name)
		}
	}
	return nil
}

// newMessagesNode leaves out the fields of messages that mean nothing here: some datasets have dozens.
func newMessagesNode(schema *parquet.Schema, field parquet.Field) *fnode {
	all := newNode(schema, field, nil, 0, 0, nil)
	if all == nil {
		return nil
	}
	e := all.element()
	if e == nil || e.leaf != nil {
		return all // text, or a list of texts
	}
	keep := e.kids[:0:0]
	for _, k := range e.kids {
		if slices.Contains(messageFields, strings.ToLower(k.name)) {
			keep = append(keep, k)
		}
	}
	e.kids = keep
	if len(keep) == 0 {
		return nil
	}
	return all
}

// NumRows gives the number of rows by the footer.
func (f *Foreign) NumRows() int64 { return f.pq.NumRows() }

// CreatedBy tells what program wrote the file, by its footer.
func (f *Foreign) CreatedBy() string { return f.pq.Metadata().CreatedBy }

// Rows reads the conversations in order from row first on. A row that is no conversation gives a
// *RowError, behind which the sequence goes on if the caller does; any other error ends it. Identifiers
// are those of the file, or row-N where it has none; nothing is done about equal ones.
func (f *Foreign) Rows(first int64) iter.Seq2[Conversation, error] {
	return func(yield func(Conversation, error) bool) {
		rows := &frows{path: f.path, skip: first}
		for _, n := range f.nodes {
			rows.columns = n.columns(rows.columns)
		}
		rows.groups = f.pq.RowGroups()
		defer rows.close()
		read := first
		for {
			ok, err := rows.next()
			if err == nil && !ok {
				if read < f.NumRows() {
					yield(Conversation{}, fmt.Errorf("%s: %d rows were read, the footer promises %d", f.path, read, f.NumRows()))
				}
				return
			}
			if err != nil {
				yield(Conversation{}, fmt.Errorf("%s: row %d: %w", f.path, read, err))
				return
			}
			c, err := f.conversation(read)
			if err != nil {
				err = &RowError{Path: f.path, Row: read, Err: err}
			}
			read++
			if !yield(c, err) {
				return
			}
		}
	}
}

// Close closes the file.
func (f *Foreign) Close() error { return f.file.Close() }
