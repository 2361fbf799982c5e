package record

import (
	"bufio"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"parley/schemas"
)

// SpoolName gives the file in which turns are kept until the dataset is made.
func SpoolName(output string) string { return output + ".spool" }

// header is the first line of a spool.
type header struct {
	Recording     int       `json:"parley_recording"` // version
	Tokenizer     string    `json:"tokenizer"`
	TokenizerHash string    `json:"tokenizer_hash"`
	Began         time.Time `json:"began"`
	Redacted      bool      `json:"redacted"`
	Upstream      string    `json:"upstream"` // host and port
}

// entry is one turn: what it adds to its conversation behind the messages that are kept of it. The last
// message is the answer.
type entry struct {
	Conversation int64             `json:"c"`
	Keep         int               `json:"keep"`
	ArrivalUS    int64             `json:"at_us"` // from when the recorder began
	Messages     []schemas.Message `json:"messages"`
	Turn         schemas.Turn      `json:"turn"`
	Tools        *string           `json:"tools,omitempty"` // with the first turn
	Body         string            `json:"body,omitempty"`
	Tags         map[string]string `json:"tags,omitempty"`
}

// spool is the file of turns, one JSON object a line.
type spool struct {
	file *os.File
	enc  *json.Encoder
}

func createSpool(o Options) (*spool, error) {
	if _, err := os.Stat(o.Output); err == nil && !o.Force {
		return nil, fmt.Errorf("%s is there already: give another --output, or --force", o.Output)
	}
	name := SpoolName(o.Output)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("%s is there already, from a recording that was killed: 'parley generate --from %s -o %s' makes its dataset; or remove it", name, name, o.Output)
	}
	if err != nil {
		return nil, err
	}
	s := &spool{f, json.NewEncoder(f)}
	s.enc.SetEscapeHTML(false)
	if err := s.enc.Encode(header{1, o.Tokenizer.Name(), o.Tokenizer.Hash(), time.Now().UTC(), !o.KeepText, o.Upstream.Host}); err != nil {
		return nil, errors.Join(err, s.remove())
	}
	return s, nil
}

func (s *spool) write(e *entry) error { return s.enc.Encode(e) }

func (s *spool) close() error { return s.file.Close() }

func (s *spool) remove() error {
	_ = s.file.Close() // may be closed already
	return os.Remove(s.file.Name())
}

// IsSpool says whether a file begins as a spool does.
func IsSpool(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, 64<<10)).ReadBytes('\n')
	var h header
	return err == nil && json.Unmarshal(line, &h) == nil && h.Recording > 0
}

// Seal makes the dataset of a spool and removes the spool. It gives the dataset's content hash. A last line
// that was cut off, as after a kill, is left out.
func Seal(name, output string, force bool) (contentHash string, err error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var h header
	talks, err := index(f, &h)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if len(talks) == 0 {
		return "", fmt.Errorf("%s: it has no turn", name)
	}
	out, err := schemas.Create[schemas.Conversation](output, force)
	if err != nil {
		return "", err
	}
	meta := schemas.DatasetMeta{
		ToolVersion: schemas.Version(), CreatedBy: "generate --record", Source: h.Upstream, Format: "recording",
		Tokenizer: h.Tokenizer, TokenizerHash: h.TokenizerHash,
		Notes: []string{fmt.Sprintf("recorded from %s on", h.Began.Format(time.RFC3339))},
	}
	if h.Redacted {
		meta.Notes = append(meta.Notes, "texts were replaced by words of the same number of tokens")
	}
	hash := schemas.NewContentHash()
	for i, talk := range talks {
		c, err := conversation(f, talk.turns)
		if err == nil {
			start := float64(talk.arrival-talks[0].arrival) / 1000
			c.ConversationID, c.StartOffsetMS = fmt.Sprintf("rec-%06d", i+1), &start
			sum, index := schemas.HashConversation(c), int64(i)
			hash.Add(sum)
			digits := hex.EncodeToString(sum[:])
			c.Index, c.ContentHash = &index, &digits
			meta.Conversations++
			meta.Turns += int64(len(c.Turns))
			err = out.Write(*c)
		}
		if err != nil {
			return "", errors.Join(fmt.Errorf("%s: conversation %d: %w", name, i+1, err), out.Abort())
		}
	}
	meta.ContentHash = hash.String()
	if err := out.Close(meta); err != nil {
		return "", err
	}
	return meta.ContentHash, os.Remove(name)
}

// place is a line of the spool.
type place struct{ at, length int64 }

// recorded is a conversation of the spool: when it began, and where its turns are.
type recorded struct {
	arrival int64 // us
	turns   []place
}

// index finds the turns of each conversation, and gives the conversations in the order in which they began.
// The spool has them in the order in which they ended.
func index(f *os.File, h *header) (talks []*recorded, err error) {
	in := bufio.NewReaderSize(f, 1<<20)
	known := map[int64]*recorded{}
	for at, first := int64(0), true; ; first = false {
		line, err := in.ReadBytes('\n')
		if err == io.EOF { // what stands behind the last line end was cut off
			slices.SortStableFunc(talks, func(a, b *recorded) int { return cmp.Compare(a.arrival, b.arrival) })
			return talks, nil
		}
		if err != nil {
			return nil, err
		}
		if first {
			if json.Unmarshal(line, h) != nil || h.Recording != 1 {
				return nil, errors.New("it is no recording of this version of parley")
			}
		} else {
			var e struct {
				C  int64 `json:"c"`
				At int64 `json:"at_us"`
			}
			if err := json.Unmarshal(line, &e); err != nil {
				return nil, fmt.Errorf("at byte %d: %w", at, err)
			}
			if known[e.C] == nil {
				known[e.C] = &recorded{arrival: e.At}
				talks = append(talks, known[e.C])
			}
			known[e.C].turns = append(known[e.C].turns, place{at, int64(len(line))})
		}
		at += int64(len(line))
	}
}

// conversation reads the turns of one conversation and puts them together.
func conversation(f *os.File, lines []place) (*schemas.Conversation, error) {
	c := &schemas.Conversation{}
	for i, l := range lines {
		raw := make([]byte, l.length)
		if _, err := f.ReadAt(raw, l.at); err != nil {
			return nil, err
		}
		var e entry
		if err := json.Unmarshal(raw, &e); err != nil {
			return nil, err
		}
		if e.Keep > len(c.Messages) {
			return nil, fmt.Errorf("turn %d keeps %d of %d messages", i, e.Keep, len(c.Messages))
		}
		if i == 0 {
			c.Tools, c.Tags = e.Tools, e.Tags
			if e.Body != "" {
				c.Body = &e.Body
			}
		}
		c.Messages = append(c.Messages[:e.Keep], e.Messages...)
		c.Turns = append(c.Turns, e.Turn)
	}
	return c, nil
}
