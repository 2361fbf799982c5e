package observe

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"

	"parley/schemas"
)

// NewTraceID draws the id of a trace: 16 bytes in hexadecimal, as the W3C's trace context has it. The generator is
// Go's own, seeded from the system; a schedule's seed has no part in it.
func NewTraceID() string { return hex.EncodeToString(append(random(), random()...)) }

// NewSpanID draws the id of a span: 8 bytes in hexadecimal.
func NewSpanID() string { return hex.EncodeToString(random()) }

// random draws 8 bytes that are not all zero, which would be no id.
func random() []byte {
	n := rand.Uint64()
	for n == 0 {
		n = rand.Uint64()
	}
	return binary.BigEndian.AppendUint64(nil, n)
}

// Traceparent gives the header that tells a server its parent: version 00, and the sampled flag, since the client keeps
// every span.
func Traceparent(trace, span string) string { return "00-" + trace + "-" + span + "-01" }

// Add counts a turn that is over.
func (c *Conversation) Add(row *schemas.Request) {
	c.Turns++
	if row.StartNS != nil {
		c.Begin = min(c.Begin, *row.StartNS)
		c.End = max(c.End, *row.StartNS)
	}
	if row.DoneNS != nil {
		c.End = max(c.End, *row.DoneNS)
	}
	if schemas.Status(row.Status).Failed() {
		c.Failed = true
	}
}
