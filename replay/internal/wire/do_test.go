package wire

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley/replay/internal/api"
	"parley/schemas"
)

// answering runs a test in virtual time against an in-memory server that treats each request (numbered over
// all connections) with f until f returns false, which closes the connection.
func answering(t *testing.T, change func(o *Options), f func(nc net.Conn, request int64, head string) (more bool), test func(t *testing.T, c *Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		var requests atomic.Int64
		go m.serve(func(nc net.Conn) {
			for {
				head, _, ok := readRequest(nc)
				if !ok || !f(nc, requests.Add(1), head) {
					return
				}
			}
		})
		o := options("http://memory")
		o.Dial = m.dial
		if change != nil {
			change(&o)
		}
		c := newClient(t, o)
		test(t, c)
		c.Close()
		m.close()
		time.Sleep(2 * time.Hour) // the server's goroutines end
	})
}

// say writes a text and tells whether the client was still there.
func say(nc net.Conn, text string) bool {
	_, err := io.WriteString(nc, text)
	return err == nil
}

func expect(t *testing.T, row *schemas.Request, status schemas.Status, wantKind string) {
	t.Helper()
	if row.Status != string(status) || kind(row) != wantKind {
		t.Fatalf("status %s, kind %q (%s); want %s, %q", row.Status, kind(row), message(row), status, wantKind)
	}
	if status != schemas.StatusOK && message(row) == "" {
		t.Fatal("a failure without a message")
	}
	if wantKind != "" && Advice(wantKind) == "" {
		t.Fatalf("no advice for the kind %q", wantKind)
	}
	if row.StartNS == nil || row.DoneNS == nil || *row.DoneNS < *row.StartNS || row.Attempts < 1 {
		t.Fatalf("start %v, done %v, attempts %d", row.StartNS, row.DoneNS, row.Attempts)
	}
}

// Each way a response can go wrong has its status and kind, within its limit of time.
func TestOutcomes(t *testing.T) {
	chunkedHead := sseHead + "Transfer-Encoding: chunked\r\n\r\n"
	first := "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\n"
	for _, test := range []struct {
		name   string
		change func(o *Options)
		serve  func(nc net.Conn) bool
		status schemas.Status
		kind   string
		within time.Duration // virtual
		note   string
	}{
		{name: "ok", serve: func(nc net.Conn) bool { return say(nc, response()) }, status: schemas.StatusOK},
		{name: "until EOF", serve: func(nc net.Conn) bool { say(nc, sseHead+"\r\n"+sseBody); return false }, status: schemas.StatusOK},
		{name: "trickle", serve: func(nc net.Conn) bool {
			for _, b := range []byte(response()) {
				time.Sleep(time.Millisecond)
				if _, err := nc.Write([]byte{b}); err != nil {
					return false
				}
			}
			return true
		}, status: schemas.StatusOK, within: 3 * time.Second},
		{name: "finished, then cut", serve: func(nc net.Conn) bool {
			say(nc, chunkedHead+"10000\r\n"+strings.TrimSuffix(sseBody, "data: [DONE]\n\n"))
			return false
		}, status: schemas.StatusOK},
		{name: "open after done", serve: func(nc net.Conn) bool {
			say(nc, sseHead+"\r\n"+sseBody)
			time.Sleep(time.Hour)
			return false
		}, status: schemas.StatusOK, within: 10 * time.Millisecond},
		{name: "endless after done", serve: func(nc net.Conn) bool {
			for say(nc, chunkedHead+chunked(sseBody, 500)[:len(chunked(sseBody, 500))-5]); say(nc, "3\r\n: \n\r\n"); {
			}
			return false
		}, status: schemas.StatusOK, within: 10 * time.Millisecond},
		{name: "no answer", serve: func(net.Conn) bool { return false }, status: schemas.StatusTransportError, kind: KindEOF},
		{name: "cut header", serve: func(nc net.Conn) bool { say(nc, "HTTP/1.1 200"); return false }, status: schemas.StatusTransportError, kind: KindEOF},
		{name: "cut", serve: func(nc net.Conn) bool { say(nc, chunkedHead+chunked(first, 40)[:60]); return false }, status: schemas.StatusIncomplete, kind: KindCutBody},
		{name: "never a byte", serve: func(net.Conn) bool { time.Sleep(time.Hour); return false }, status: schemas.StatusTimeout, kind: KindTimeoutIdle, within: 2*time.Minute + time.Second},
		{name: "stalled stream", serve: func(nc net.Conn) bool {
			say(nc, chunkedHead+chunked(first, 40)[:60])
			time.Sleep(time.Hour)
			return false
		}, status: schemas.StatusTimeout, kind: KindTimeoutIdle, within: 2*time.Minute + time.Second},
		{name: "comments for ever", serve: func(nc net.Conn) bool {
			for say(nc, chunkedHead); say(nc, "3\r\n:\n\n\r\n"); {
				time.Sleep(time.Minute)
			}
			return false
		}, status: schemas.StatusTimeout, kind: KindTimeoutTotal, within: 10*time.Minute + time.Second},
		{name: "no limits", change: func(o *Options) { o.Timeout, o.IdleTimeout = None, None }, serve: func(nc net.Conn) bool {
			time.Sleep(30 * 24 * time.Hour)
			return say(nc, response())
		}, status: schemas.StatusOK, within: 31 * 24 * time.Hour},
		{name: "redirect", serve: func(nc net.Conn) bool {
			return say(nc, "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://elsewhere/v1?key=s3cret\r\nContent-Length: 0\r\n\r\n")
		}, status: schemas.StatusHTTPError, kind: api.KindRedirect},
		{name: "overloaded", serve: func(nc net.Conn) bool {
			return say(nc, "HTTP/1.1 529 Busy\r\nContent-Length: 2\r\n\r\n{}")
		}, status: schemas.StatusHTTPError, kind: api.KindOverloaded},
		{name: "unauthorized", serve: func(nc net.Conn) bool {
			return say(nc, "HTTP/1.1 401 x\r\nContent-Length: 0\r\n\r\n")
		}, status: schemas.StatusHTTPError, kind: api.KindUnauthorized},
		{name: "no HTTP", serve: func(nc net.Conn) bool { say(nc, "+PONG\r\n"); return false }, status: schemas.StatusTransportError, kind: KindBadResponse},
		{name: "endless header", change: func(o *Options) { o.MaxHeader = 1 << 16 }, serve: func(nc net.Conn) bool {
			for say(nc, "HTTP/1.1 200 OK\r\n"); say(nc, "X-Flood: yes, a flood of headers\r\n"); {
			}
			return false
		}, status: schemas.StatusTransportError, kind: KindHeaderTooLarge},
		{name: "endless body", change: func(o *Options) { o.MaxBody = 1 << 16 }, serve: func(nc net.Conn) bool {
			for say(nc, sseHead+"\r\n"); say(nc, ": endless comments are bytes too\n"); {
			}
			return false
		}, status: schemas.StatusTransportError, kind: KindBodyTooLarge},
		{name: "giant event", change: func(o *Options) { o.MaxEvent = 1 << 16 }, serve: func(nc net.Conn) bool {
			for say(nc, sseHead+"\r\ndata: "); say(nc, "one event that has no end; "); {
			}
			return false
		}, status: schemas.StatusStreamError, kind: api.KindEventTooLong},
		{name: "gzip", serve: func(nc net.Conn) bool {
			body := compress("gzip", sseBody)
			return say(nc, fmt.Sprintf("%sContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", sseHead, len(body), body))
		}, status: schemas.StatusOK, note: "gzip"},
		{name: "deflate until EOF", serve: func(nc net.Conn) bool {
			say(nc, sseHead+"Content-Encoding: deflate\r\n\r\n"+compress("deflate", sseBody))
			return false
		}, status: schemas.StatusOK, note: "gzip"},
		{name: "cut gzip", serve: func(nc net.Conn) bool {
			body := compress("gzip", strings.TrimSuffix(first, "\n"))
			body = body[:len(body)-10]
			return say(nc, fmt.Sprintf("%sContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", sseHead, len(body), body))
		}, status: schemas.StatusIncomplete, kind: KindCutBody, note: "gzip"},
		{name: "no gzip", serve: func(nc net.Conn) bool {
			return say(nc, sseHead+"Content-Encoding: gzip\r\nContent-Length: 20\r\n\r\n"+strings.Repeat("x", 20))
		}, status: schemas.StatusTransportError, kind: KindBadResponse, note: "gzip"},
		{name: "brotli", serve: func(nc net.Conn) bool {
			return say(nc, sseHead+"Content-Encoding: br\r\nContent-Length: 0\r\n\r\n")
		}, status: schemas.StatusTransportError, kind: KindContentEncoding},
		{name: "bomb", change: func(o *Options) { o.MaxBody = 1 << 20 }, serve: func(nc net.Conn) bool {
			body := compress("gzip", strings.Repeat(": bomb\n", 1<<20))
			return say(nc, fmt.Sprintf("%sContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", sseHead, len(body), body))
		}, status: schemas.StatusTransportError, kind: KindBodyTooLarge, note: "gzip"},
	} {
		t.Run(test.name, func(t *testing.T) {
			answering(t, test.change, func(nc net.Conn, _ int64, _ string) bool { return test.serve(nc) }, func(t *testing.T, c *Client) {
				start := time.Now()
				row, a := turn(t, c, context.Background(), TurnRequest{})
				took := time.Since(start)
				expect(t, row, test.status, test.kind)
				if took > test.within {
					t.Errorf("took %v", took)
				}
				if test.status == schemas.StatusOK && text(a) != "Hello you" {
					t.Errorf("answer %q", text(a))
				}
				if test.note != "" && (row.TimingNote == nil || *row.TimingNote != test.note) {
					t.Errorf("timing note %v, want %s", row.TimingNote, test.note)
				}
				if row.StaleReplays != 0 || row.Attempts != 1 {
					t.Errorf("attempts %d, replays %d", row.Attempts, row.StaleReplays)
				}
			})
		})
	}
}

func compress(how, text string) string {
	var b bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&b)
	if how == "deflate" {
		w = zlib.NewWriter(&b)
	}
	io.WriteString(w, text)
	w.Close()
	return b.String()
}

// A canceled turn ends at once, whatever it waits for.
func TestCancel(t *testing.T) {
	for _, where := range []string{"connecting", "writing", "waiting", "streaming"} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				o := options("http://memory")
				o.Dial = m.dial
				go m.serve(func(nc net.Conn) {
					if where == "writing" {
						time.Sleep(time.Minute)
						return
					}
					readRequest(nc)
					if where == "streaming" {
						say(nc, sseHead+"\r\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\n")
					}
					time.Sleep(time.Minute)
				})
				if where == "connecting" {
					o.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
						<-ctx.Done()
						return nil, ctx.Err()
					}
				}
				c := newClient(t, o)
				ctx, cancel := context.WithCancel(context.Background())
				time.AfterFunc(3*time.Second, cancel)
				start := time.Now()
				row, _ := turn(t, c, ctx, TurnRequest{})
				expect(t, row, schemas.StatusCanceled, KindCanceled)
				if d := time.Since(start); d != 3*time.Second {
					t.Errorf("ended after %v", d)
				}
				if (row.FirstTokenNS != nil) != (where == "streaming") {
					t.Errorf("first token %v", row.FirstTokenNS)
				}
				if c.Stats().ConnsIdle != 0 {
					t.Error("the connection was kept")
				}
				m.close()
				time.Sleep(2 * time.Minute)
			})
		})
	}
}

// A turn that its user gives up has a status of its own, whatever it was doing, and what came before stays in the row.
func TestLeave(t *testing.T) {
	for _, where := range []string{"waiting", "streaming", "done"} {
		answering(t, nil, func(nc net.Conn, _ int64, _ string) bool {
			if where == "done" {
				return say(nc, response())
			}
			if where == "streaming" {
				say(nc, sseHead+"\r\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\n")
			}
			time.Sleep(time.Minute)
			return false
		}, func(t *testing.T, c *Client) {
			start := time.Now()
			row, a := turn(t, c, context.Background(), TurnRequest{LeaveAfter: 2 * time.Second})
			if where == "done" {
				expect(t, row, schemas.StatusOK, "")
				return
			}
			expect(t, row, schemas.StatusAbandoned, KindLeft)
			if d := time.Since(start); d != 2*time.Second {
				t.Errorf("%s: left after %v", where, d)
			}
			if streaming := where == "streaming"; (row.FirstTokenNS != nil) != streaming || streaming && text(a) != "Hi" || c.Stats().ConnsIdle != 0 {
				t.Errorf("%s: first token %v, text %q, idle connections %d", where, row.FirstTokenNS, text(a), c.Stats().ConnsIdle)
			}
			// The run's own end is no leaving.
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(time.Second, cancel)
			row, _ = turn(t, c, ctx, TurnRequest{LeaveAfter: 2 * time.Second})
			expect(t, row, schemas.StatusCanceled, KindCanceled)
		})
	}
}

// A key's file is read again when it changes; while it cannot be read the last key stays, and no key is shown.
func TestKeyFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	put := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("first-key\n")
	var heads []string
	answering(t, func(o *Options) { o.APIKeyFile = file }, func(nc net.Conn, _ int64, head string) bool {
		heads = append(heads, head)
		return say(nc, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 31\r\n\r\nnot first-key nor second-key, no")
	}, func(t *testing.T, c *Client) {
		for i, want := range []string{"first-key", "second-key", "second-key", "second-key"} {
			row, _ := turn(t, c, context.Background(), TurnRequest{})
			expect(t, row, schemas.StatusHTTPError, api.KindUnauthorized)
			if !strings.Contains(heads[i], "Authorization: Bearer "+want+"\r\n") || strings.Contains(message(row), want) || i > 0 && strings.Contains(message(row), "first-key") {
				t.Errorf("turn %d: %q, %q", i, heads[i], message(row))
			}
			switch i {
			case 0:
				put("  second-key")
			case 1:
				put("")
			case 2:
				os.Remove(file)
			}
			time.Sleep(time.Second)
		}
	})
	o := options("http://127.0.0.1:1")
	put("")
	for _, o.APIKeyFile = range []string{file, filepath.Dir(file)} { // empty, no file
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), o.APIKeyFile) {
			t.Errorf("%s: %v", o.APIKeyFile, err)
		}
	}
}

// An idle connection that the server has closed costs a second sending, not a failure.
func TestStaleConnection(t *testing.T) {
	// Every second request of a connection finds it closed, after the request was taken.
	answering(t, nil, func(nc net.Conn, n int64, _ string) bool { return n != 2 && say(nc, response()) }, func(t *testing.T, c *Client) {
		row, _ := turn(t, c, context.Background(), TurnRequest{})
		expect(t, row, schemas.StatusOK, "")
		row, _ = turn(t, c, context.Background(), TurnRequest{})
		expect(t, row, schemas.StatusOK, "")
		if row.StaleReplays != 1 || row.Attempts != 2 || *row.ConnReused {
			t.Fatalf("replays %d, attempts %d, reused %t", row.StaleReplays, row.Attempts, *row.ConnReused)
		}
		row, _ = turn(t, c, context.Background(), TurnRequest{})
		expect(t, row, schemas.StatusOK, "")
		if row.StaleReplays != 0 || !*row.ConnReused {
			t.Fatalf("replays %d, reused %t", row.StaleReplays, *row.ConnReused)
		}
	})
	// Only once.
	answering(t, nil, func(nc net.Conn, n int64, _ string) bool { return n == 1 && say(nc, response()) }, func(t *testing.T, c *Client) {
		turn(t, c, context.Background(), TurnRequest{})
		row, _ := turn(t, c, context.Background(), TurnRequest{})
		expect(t, row, schemas.StatusTransportError, KindEOF)
		if row.StaleReplays != 1 || row.Attempts != 2 {
			t.Fatalf("replays %d, attempts %d", row.StaleReplays, row.Attempts)
		}
	})
	// Not after a byte of the response.
	answering(t, nil, func(nc net.Conn, n int64, _ string) bool {
		if n == 2 {
			say(nc, "H")
			return false
		}
		return say(nc, response())
	}, func(t *testing.T, c *Client) {
		turn(t, c, context.Background(), TurnRequest{})
		row, _ := turn(t, c, context.Background(), TurnRequest{})
		expect(t, row, schemas.StatusTransportError, KindEOF)
		if row.StaleReplays != 0 {
			t.Fatal("sent again although the server had begun to answer")
		}
	})
}

// Staleness shows within a moment: a connection that breaks after a long silence broke under the request, whose
// row must say so.
func TestBrokenAfterSilence(t *testing.T) {
	answering(t, nil, func(nc net.Conn, n int64, _ string) bool {
		if n == 1 {
			return say(nc, response())
		}
		time.Sleep(time.Minute)
		return false
	}, func(t *testing.T, c *Client) {
		row, _ := turn(t, c, context.Background(), TurnRequest{})
		expect(t, row, schemas.StatusOK, "")
		row, _ = turn(t, c, context.Background(), TurnRequest{})
		expect(t, row, schemas.StatusTransportError, KindEOF)
		if row.StaleReplays != 0 || row.Attempts != 1 || !*row.ConnReused || *row.DoneNS-*row.SentNS < int64(time.Minute) {
			t.Fatalf("replays %d, attempts %d, reused %t, took %d ns", row.StaleReplays, row.Attempts, *row.ConnReused, *row.DoneNS-*row.SentNS)
		}
	})
}

// Idle connections are used again within their time only, the last one first.
func TestKeepIdle(t *testing.T) {
	answering(t, nil, func(nc net.Conn, _ int64, _ string) bool { return say(nc, response()) }, func(t *testing.T, c *Client) {
		if err := c.Preconnect(context.Background(), 5); err != nil {
			t.Fatal(err)
		}
		if s := c.Stats(); s.ConnsOpened != 5 || s.ConnsIdle != 5 {
			t.Fatalf("%+v", s)
		}
		time.Sleep(30 * time.Second) // connections that have carried nothing are kept longer
		row, _ := turn(t, c, context.Background(), TurnRequest{})
		if *row.ConnReused || row.ConnectNS != nil {
			t.Fatalf("a connection made beforehand counts as reused (%t), or as made now (%v)", *row.ConnReused, row.ConnectNS)
		}
		time.Sleep(3900 * time.Millisecond)
		row, _ = turn(t, c, context.Background(), TurnRequest{})
		if s := c.Stats(); !*row.ConnReused || s.ConnsOpened != 5 {
			t.Fatalf("not reused; %+v", s)
		}
		time.Sleep(2 * time.Minute)
		row, _ = turn(t, c, context.Background(), TurnRequest{})
		if s := c.Stats(); *row.ConnReused || s.ConnsOpened != 6 || s.ConnsIdle != 1 {
			t.Fatalf("an old connection was used or kept: %+v", s)
		}
	})
	answering(t, func(o *Options) { o.KeepIdle = None }, func(nc net.Conn, _ int64, _ string) bool { return say(nc, response()) }, func(t *testing.T, c *Client) {
		for range 3 {
			turn(t, c, context.Background(), TurnRequest{})
		}
		if s := c.Stats(); s.ConnsOpened != 3 {
			t.Fatalf("%+v", s)
		}
	})
}

func TestRetries(t *testing.T) {
	busy := func(extra string) func(nc net.Conn, n int64, _ string) bool {
		return func(nc net.Conn, n int64, _ string) bool {
			if n <= 2 {
				return say(nc, "HTTP/1.1 429 Too Many Requests\r\n"+extra+"Content-Length: 2\r\n\r\n{}")
			}
			return say(nc, response())
		}
	}
	for _, test := range []struct {
		name    string
		header  string
		retries int
		status  schemas.Status
		kind    string
		waits   time.Duration
		tries   int64
	}{
		{"none by default", "", 0, schemas.StatusHTTPError, api.KindRateLimited, 0, 1},
		{"too few", "", 1, schemas.StatusHTTPError, api.KindRateLimited, 500 * time.Millisecond, 2},
		{"enough", "", 2, schemas.StatusOK, "", 1500 * time.Millisecond, 3},
		{"seconds", "Retry-After: 7\r\n", 5, schemas.StatusOK, "", 14 * time.Second, 3},
		// The bubble's time begins at midnight UTC on 2000-01-01.
		{"date", "Retry-After: Sat, 01 Jan 2000 00:00:20 GMT\r\n", 5, schemas.StatusOK, "", 20 * time.Second, 3},
		{"too long a wait", "Retry-After: 3600\r\n", 5, schemas.StatusHTTPError, api.KindRateLimited, 0, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			answering(t, func(o *Options) { o.Retries = test.retries }, busy(test.header), func(t *testing.T, c *Client) {
				start := time.Now()
				row, _ := turn(t, c, context.Background(), TurnRequest{})
				expect(t, row, test.status, test.kind)
				if d := time.Since(start); d != test.waits {
					t.Errorf("took %v, want %v", d, test.waits)
				}
				if row.Attempts != test.tries || row.StaleReplays != 0 {
					t.Errorf("attempts %d, want %d; replays %d", row.Attempts, test.tries, row.StaleReplays)
				}
				n := len(row.AttemptNS)
				if *row.StartNS != 0 || int64(n) != row.Attempts || row.AttemptNS[0] != 0 || time.Duration(row.AttemptNS[n-1]) != test.waits || *row.SentNS < row.AttemptNS[n-1] {
					t.Errorf("started at %d, attempts at %v, the last one after %v", *row.StartNS, row.AttemptNS, test.waits)
				}
			})
		})
	}
	// A canceled wait ends the turn with what there was.
	answering(t, func(o *Options) { o.Retries = 9 }, busy("Retry-After: 50\r\n"), func(t *testing.T, c *Client) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		row, _ := turn(t, c, ctx, TurnRequest{})
		expect(t, row, schemas.StatusHTTPError, api.KindRateLimited)
	})
}

// What a server issues comes back, in its own session only.
func TestSessionHeaders(t *testing.T) {
	heads := make(chan string, 10)
	answering(t, func(o *Options) {
		o.Cookies = true
		o.EchoHeaders = []string{"x-session-token"}
		o.APIKey = "the-key"
		o.Headers = []api.Header{{Name: "user-agent", Value: "special/1"}}
	}, func(nc net.Conn, n int64, head string) bool {
		heads <- head
		return say(nc, fmt.Sprintf("HTTP/1.1 200 OK\r\nX-Session-Token: t%d\r\nSet-Cookie: replica=r%d; Path=/\r\nSet-Cookie: other=1\r\nTransfer-Encoding: chunked\r\n\r\n%s", n, n, chunked(sseBody, 1000)))
	}, func(t *testing.T, c *Client) {
		s, err := c.NewSession(api.HistoryOptions{})
		if err != nil {
			t.Fatal(err)
		}
		hi := "hi"
		if err := s.Append(schemas.Message{Role: "user", Content: &hi}); err != nil {
			t.Fatal(err)
		}
		tr := TurnRequest{RequestID: "req-1", Headers: []api.Header{{Name: "X-Session-ID", Value: "c\u00e4\r\n7"}}}
		for range 2 {
			row, a := send(context.Background(), s, tr)
			expect(t, row, schemas.StatusOK, "")
			if live, err := s.AppendAnswer(a, nil); err != nil || !live {
				t.Fatal(live, err)
			}
			if err := s.Append(schemas.Message{Role: "user", Content: &hi}); err != nil {
				t.Fatal(err)
			}
		}
		row, _ := turn(t, c, context.Background(), TurnRequest{})
		expect(t, row, schemas.StatusOK, "")
		first, second, other := <-heads, <-heads, <-heads
		for _, want := range []string{"POST /v1/chat/completions HTTP/1.1\r\nHost: memory\r\n", "\r\nuser-agent: special/1\r\n", "\r\nAuthorization: Bearer the-key\r\n",
			"\r\nAccept-Encoding: identity\r\n", "\r\nContent-Type: application/json\r\n", "\r\nAccept: text/event-stream\r\n", "\r\nX-Request-Id: req-1\r\n", "\r\nX-Session-ID: c%C3%A4%0D%0A7\r\n"} {
			if !strings.Contains(first, want) {
				t.Errorf("%q is missing in %q", want, first)
			}
		}
		if strings.Contains(first, "x-session-token") || strings.Contains(first, "Cookie:") || strings.Contains(strings.ToLower(first), "user-agent: parley") {
			t.Errorf("too much in the first request: %q", first)
		}
		if !strings.Contains(second, "\r\nx-session-token: t1\r\n") || !strings.Contains(second, "\r\nCookie: ") || !strings.Contains(second, "replica=r1") || !strings.Contains(second, "other=1") {
			t.Errorf("the session's headers are missing in %q", second)
		}
		if strings.Contains(other, "x-session-token") || strings.Contains(other, "Cookie:") {
			t.Errorf("another session's headers in %q", other)
		}
	})
}
