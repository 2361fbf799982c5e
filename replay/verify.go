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
		if schemas.Status(row.Status) == schemas.StatusOK && row.Text != nil {
			v.first[place{row.ConversationID, row.Instance, row.Turn}] = answerHash(&row)
		}
	}
	if len(v.first) == 0 {
		return nil, fmt.Errorf("%s holds no answers: make it with --save-text", file)
	}
	return v, nil
}

// answerHash gives a fingerprint of the answer in a row's text columns.
func answerHash(row *schemas.Request) [sha256.Size]byte {
	text, reasoning := "", ""
	if row.Text != nil {
		text = *row.Text
	}
	if row.ReasoningText != nil {
		reasoning = *row.ReasoningText
	}
	b, _ := json.Marshal([2]string{text, reasoning}) // of two texts: no error
	return sha256.Sum256(b)
}

// compare holds a row with its text against the first run, and notes the outcome in the row.
func (v *verifier) compare(row *schemas.Request) {
	if schemas.Status(row.Status) != schemas.StatusOK || row.Text == nil {
		return
	}
	want, ok := v.first[place{row.ConversationID, row.Instance, row.Turn}]
	v.mu.Lock()
	defer v.mu.Unlock()
	if !ok {
		v.found.Missing++
		return
	}
	same := answerHash(row) == want
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
