package replay

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"

	"parley/schemas"
)

// verifier holds a run's answers against those of a first run, turn by turn.
type verifier struct {
	file  string
	first map[place][sha256.Size]byte

	mu    sync.Mutex
	found schemas.Verification
	apart map[string]bool // conversations with a difference
}

// place is which turn an answer belongs to.
type place struct {
	conversation   string
	instance, turn int64
}

// newVerifier reads the answers of a first run's file.
func newVerifier(file string) (*verifier, error) {
	f, err := schemas.Open[schemas.Request](file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	v := &verifier{file: file, first: map[place][sha256.Size]byte{}, apart: map[string]bool{}}
	for row, err := range f.Rows(0) {
		if err != nil {
			return nil, err
		}
		if sum, ok := answerHash(&row); ok {
			v.first[place{row.ConversationID, row.Instance, row.Turn}] = sum
		}
	}
	if len(v.first) == 0 {
		return nil, fmt.Errorf("%s holds no answers: make it with --save-text", file)
	}
	return v, nil
}

// answerHash gives a fingerprint of the answer in a row's text columns, false where there is none. Of tool calls it has
// the functions and their arguments: the calls' identifiers are made up anew for each answer.
func answerHash(row *schemas.Request) (sum [sha256.Size]byte, ok bool) {
	if schemas.Status(row.Status) != schemas.StatusOK || row.Text == nil && row.ToolCalls == nil {
		return sum, false
	}
	var answer struct {
		Text, Reasoning *string
		Calls           []struct{ Function json.RawMessage }
	}
	answer.Text, answer.Reasoning = row.Text, row.ReasoningText
	if row.ToolCalls != nil {
		_ = json.Unmarshal([]byte(*row.ToolCalls), &answer.Calls) // parley wrote it
	}
	b, _ := json.Marshal(answer) // nothing of it can fail
	return sha256.Sum256(b), true
}

// compare holds a row with its text against the first run, and notes the outcome in the row.
func (v *verifier) compare(row *schemas.Request) {
	sum, ok := answerHash(row)
	if !ok {
		return
	}
	want, ok := v.first[place{row.ConversationID, row.Instance, row.Turn}]
	v.mu.Lock()
	defer v.mu.Unlock()
	if !ok {
		v.found.Missing++
		return
	}
	same := sum == want
	row.OutputSame = &same
	v.found.Compared++
	if !same {
		v.found.Different++
		v.apart[row.ConversationID] = true
	}
}

// result gives what was found, and in words.
func (v *verifier) result() (*schemas.Verification, string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	found := v.found
	found.File, found.Conversations = filepath.Base(v.file), int64(len(v.apart))
	text := fmt.Sprintf("--verify-output: %d of %d answers differ from those of %s, in %d conversations", found.Different, found.Compared, found.File, found.Conversations)
	if found.Missing > 0 {
		text += fmt.Sprintf("; %d had no answer there to compare with", found.Missing)
	}
	return &found, text
}
