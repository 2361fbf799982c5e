package wire

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/schemas"
)

// The moments of a turn in virtual time are exact.
func TestMoments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		go m.serve(func(nc net.Conn) {
			for {
				if _, _, ok := readRequest(nc); !ok {
					return
				}
				time.Sleep(500 * time.Millisecond)
				io.WriteString(nc, sseHead+"Transfer-Encoding: chunked\r\n\r\n")
				for event := range strings.SplitAfterSeq(sseBody, "\n\n") {
					if event == "" {
						break
					}
					time.Sleep(50 * time.Millisecond)
					io.WriteString(nc, hex(len(event))+"\r\n"+event+"\r\n")
				}
				io.WriteString(nc, "0\r\n\r\n")
			}
		})
		o := options("http://memory")
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			time.Sleep(30 * time.Millisecond)
			return m.dial(ctx, network, address)
		}
		c := newClient(t, o)
		for i := range 2 {
			start := o.Clock.Now()
			row, a := turn(t, c, context.Background(), TurnRequest{RequestID: "q"})
			if row.Status != string(schemas.StatusOK) || text(a) != "Hello you" {
				t.Fatalf("%s %s %s, answer %q", row.Status, kind(row), message(row), text(a))
			}
			connect := int64(30 * time.Millisecond)
			if i > 0 {
				connect = 0
			}
			ms := int64(time.Millisecond)
			for name, m := range map[string]struct {
				got  *int64
				want int64
			}{
				"start": {row.StartNS, 0}, "sent": {row.SentNS, connect}, "wrote": {row.WroteNS, connect},
				"first_byte": {row.FirstByteNS, connect + 500*ms}, "first_event": {row.FirstEventNS, connect + 550*ms},
				"first_token": {row.FirstTokenNS, connect + 600*ms}, "last_token": {row.LastTokenNS, connect + 650*ms},
				"done": {row.DoneNS, connect + 750*ms},
			} {
				if m.got == nil || *m.got-start != m.want {
					t.Errorf("turn %d: %s = %v, want %v after the start", i, name, deref(m.got)-start, m.want)
				}
			}
			if *row.ConnReused != (i > 0) || (row.ConnectNS == nil) != (i > 0) || row.TLSNS != nil || row.DNSNS != nil {
				t.Errorf("turn %d: reused %v, connect %v", i, *row.ConnReused, row.ConnectNS)
			}
			if row.Attempts != 1 || row.StaleReplays != 0 || row.BytesSent == 0 || row.BytesReceived == 0 || row.Reads < 6 {
				t.Errorf("turn %d: %+v", i, row)
			}
			if row.TimingNote == nil || *row.TimingNote != "user_clock" {
				t.Errorf("turn %d: an in-memory connection has no kernel stamps, but timing_note is %v", i, row.TimingNote)
			}
		}
		c.Close()
		m.close()
		synctest.Wait()
	})
}

func deref(p *int64) int64 {
	if p == nil {
		return -1
	}
	return *p
}
