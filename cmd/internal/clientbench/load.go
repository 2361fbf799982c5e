package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"parley/replay/simserver"
	"parley/schemas"
)

// What the streams of a load go over.
const (
	plain   = "plain"
	overTLS = "tls"
	netHTTP = "net-http"
	http2   = "http2"
)

// load is one row of the table.
type load struct {
	over     string
	streams  int
	requests int
	rate     float64 // conversations per second; 0 is a closed loop
	arrivals string
	ramp     time.Duration
	ttft     time.Duration
	itl      time.Duration
	tokens   int
	noWrk    bool
}

func (l load) String() string {
	if l.rate > 0 {
		return fmt.Sprintf("%v conversations/s (%s), %d in all", l.rate, l.arrivals, l.requests)
	}
	return fmt.Sprintf("%d streams (%s), %d requests of %d tokens at %v", l.streams, l.over, l.requests, l.tokens, l.itl)
}

// loads gives the rows that the options ask for.
func (o *options) loads() []load {
	var out []load
	if o.openLoop > 0 {
		for _, arrivals := range []string{"constant", "poisson"} {
			n := int(o.openLoop * o.duration.Seconds())
			l := load{over: plain, rate: o.openLoop, arrivals: arrivals, requests: n, ttft: 20 * time.Millisecond, itl: 10 * time.Millisecond, tokens: 8, noWrk: true}
			l.streams = int(o.openLoop * (l.ttft + time.Duration(l.tokens)*l.itl).Seconds())
			out = append(out, l)
		}
		return out
	}
	for _, n := range o.streams {
		l := load{streams: n, requests: n, ttft: o.ttft, itl: o.itl, tokens: o.tokens, noWrk: o.noWrk}
		if !o.allAtOnce {
			l.ramp = 2 * time.Second
		}
		if l.itl == 0 {
			switch {
			case n <= 2000:
				l.itl = 50 * time.Millisecond
			case n <= 5000:
				l.itl = 250 * time.Millisecond
			default:
				l.itl = time.Second
			}
		}
		if l.tokens == 0 {
			switch {
			case n <= 2000:
				l.tokens = 100
			case n <= 5000:
				l.tokens = 60
			default:
				l.tokens = 20
			}
		}
		if o.hold > 0 {
			l.tokens = max(l.tokens, int(o.hold/l.itl)+1)
		}
		switch { // few streams need several rounds for a percentile
		case n < 10:
			l.requests = 3 * n
		case n < 500 && o.hold == 0:
			l.requests = 2 * n
		}
		for _, l.over = range o.over {
			l.noWrk = o.noWrk || l.over != plain
			out = append(out, l)
		}
	}
	return out
}

// query gives the server's parameters; cert is the file for its certificate.
func (l load) query(log, cert string) string {
	c := simserver.Config{
		Dialect: "vllm", Log: log, LogChunk: true, TTFT: l.ttft, ITL: l.itl, Jitter: 0.1, Slots: 0,
		CacheBlocks: 65536, BlockSize: 16, Output: 128, MaxModelLen: 1 << 20,
		HTTP2: l.over == http2,
	}
	if l.over == overTLS || l.over == http2 {
		c.TLSCert = cert
	}
	return c.Query()
}

// measure runs one load: parley replay against a fresh server, then wrk against another.
func (o *options) measure(ctx context.Context, dir string, l load) (*result, error) {
	dir, err := os.MkdirTemp(dir, fmt.Sprintf("s%d-", l.streams))
	if err != nil {
		return nil, err
	}
	dataset := filepath.Join(dir, "conversations.parquet")
	if err := writeDataset(dataset, l); err != nil {
		return nil, err
	}
	r := &result{load: l}
	log, cert := filepath.Join(dir, "truth.jsonl"), filepath.Join(dir, "cert.pem")
	server, err := simserver.Start(ctx, o.command(context.Background(), o.llmsim), l.query(log, cert))
	if err != nil {
		return nil, err
	}
	defer func() { _ = server.Stop() }() // a second Stop after a good run changes nothing
	rows := filepath.Join(dir, "run.parquet")
	args := []string{"replay", dataset, "--url", server.URL, "-o", rows, "--ignore-eos", "--no-color", "--scrape", "none", "--model", "sim"}
	switch l.over {
	case overTLS:
		args = append(args, "--ca-file", cert)
	case http2:
		args = append(args, "--ca-file", cert, "--http2")
	case netHTTP:
		args = append(args, "--proxy", server.URL) // it takes a proxy's requests, too
	}
	if l.rate > 0 {
		args = append(args, "--rate", strconv.FormatFloat(l.rate, 'g', -1, 64), "--arrivals", l.arrivals)
	} else {
		args = append(args, "--concurrency", strconv.Itoa(l.streams))
		if l.ramp > 0 && l.streams > 1 {
			args = append(args, "--ramp", l.ramp.String())
		}
	}
	client := o.command(ctx, o.parley, append(args, o.extra...)...)
	watch, err := runWatched(client, server.PID())
	if code := client.ProcessState.ExitCode(); code == 3 {
		r.verdict, err = "INVALID", nil // a result all the same
	}
	if err != nil {
		return nil, fmt.Errorf("parley %s: %w: %s", strings.Join(args, " "), err, watch.output)
	}
	if r.serverStats, err = serverStats(ctx, server.URL, cert); err != nil {
		return nil, err
	}
	if err := server.Stop(); err != nil {
		return nil, err
	}
	truth, err := readTruth(log)
	if err != nil {
		return nil, err
	}
	if err := r.match(rows, truth); err != nil {
		return nil, err
	}
	r.account(watch)
	if l.noWrk {
		return r, nil
	}
	return r, o.wrk(ctx, dir, l, r)
}

// writeDataset makes conversations of one turn each.
func writeDataset(path string, l load) (err error) {
	w, err := schemas.Create[schemas.Conversation](path, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Abort()) }()
	rnd := rand.New(rand.NewPCG(1, uint64(l.requests)))
	hash := schemas.NewContentHash()
	for i := range l.requests {
		c := schemas.Conversation{ConversationID: fmt.Sprintf("c%06d", i)}
		text := prompt(rnd)
		tokens := int64(l.tokens)
		c.Messages = []schemas.Message{{Role: "user", Content: &text}}
		c.Turns = []schemas.Turn{{MessageIndex: 1, OutputTokens: &tokens}}
		hash.Add(schemas.HashConversation(&c))
		if err := w.Write(c); err != nil {
			return err
		}
	}
	return w.Close(schemas.DatasetMeta{
		CreatedBy: "clientbench", ContentHash: hash.String(), Conversations: int64(l.requests), Turns: int64(l.requests),
	})
}

// prompt is a question of about fifty words.
func prompt(rnd *rand.Rand) string {
	words := strings.Fields("please explain how the system keeps each request in order while other clients ask for the same part of the data and what happens when one of them leaves early")
	var b strings.Builder
	for i := range 50 {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(words[rnd.IntN(len(words))])
	}
	b.WriteByte('?')
	return b.String()
}
