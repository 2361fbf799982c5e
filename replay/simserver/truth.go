package simserver

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Truth is one line of the truth log: what really happened to one request. Times are Unix nanoseconds,
// 0 where the moment never came.
type Truth struct {
	ResponseID  string  `json:"response_id"`        // as the response had it
	RequestID   string  `json:"request_id"`         // the X-Request-ID header
	Session     string  `json:"session,omitempty"`  // value of issue_header that came back, or was issued
	Path        string  `json:"path"`               //
	Seq         uint64  `json:"seq"`                // number in order of arrival, from 0
	Status      int     `json:"status"`             // HTTP status, 0 if none was sent
	ReceivedNS  int64   `json:"received_ns"`        // the request's last byte arrived (the kernel's stamp where there is one)
	AdmittedNS  int64   `json:"admitted_ns"`        // a slot was there
	FirstNS     int64   `json:"first_write_ns"`     // just before the first token-bearing chunk was handed to the kernel
	FirstDoneNS int64   `json:"first_written_ns"`   // just after
	LastNS      int64   `json:"last_write_ns"`      // just before the last token-bearing chunk was handed to the kernel
	EndNS       int64   `json:"end_ns"`             // just before the end of the response was handed to the kernel
	Prompt      int     `json:"prompt_tokens"`      //
	Cached      int     `json:"cached_tokens"`      //
	Completion  int     `json:"completion_tokens"`  // tokens sent, reasoning included
	Reasoning   int     `json:"reasoning_tokens"`   //
	Chunks      int     `json:"chunks"`             // token-bearing chunks written
	InFlight    int64   `json:"in_flight"`          // requests in flight when this one arrived, itself included
	Fault       string  `json:"fault,omitempty"`    // the fault injected
	Finish      string  `json:"finish,omitempty"`   // finish reason sent
	Error       string  `json:"error,omitempty"`    // why the server could not finish: the client left, a write failed
	ChunkNS     []int64 `json:"chunk_ns,omitempty"` // with log_chunks: just before each chunk was handed to the kernel
	ConnAge     int     `json:"conn_requests"`      // requests that the connection had carried before
	Streaming   bool    `json:"streaming"`          //
	Dialect     string  `json:"dialect"`            //
}

const truthFlushInterval = 100 * time.Millisecond

// truthLog writes lines; a nil writer makes it do nothing.
type truthLog struct {
	mu   sync.Mutex
	w    *bufio.Writer
	file *os.File
	err  error
}

func openTruthLog(path string) (*truthLog, error) {
	if path == "" {
		return &truthLog{}, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("simserver: truth log: %w", err)
	}
	l := newTruthLog(f)
	l.file = f
	return l, nil
}

func newTruthLog(w io.Writer) *truthLog { return &truthLog{w: bufio.NewWriterSize(w, 64<<10)} }

// write appends a line.
func (l *truthLog) write(t *Truth) {
	if l.w == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := json.NewEncoder(l.w).Encode(t); err != nil && l.err == nil {
		l.err = fmt.Errorf("simserver: truth log: %w", err)
	}
}

func (l *truthLog) flush() error {
	if l.w == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.w.Flush(); err != nil && l.err == nil {
		l.err = fmt.Errorf("simserver: truth log: %w", err)
	}
	return l.err
}

// flushUntil flushes often until stop is closed, so that a killed server's log misses little.
func (l *truthLog) flushUntil(stop <-chan struct{}) {
	if l.w == nil {
		return
	}
	tick := time.NewTicker(truthFlushInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = l.flush() // kept, and returned by the flush at the end
		case <-stop:
			return
		}
	}
}

func (l *truthLog) close() error {
	err := l.flush()
	if l.file != nil {
		if cerr := l.file.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("simserver: truth log: %w", cerr)
		}
		l.file = nil
	}
	return err
}
