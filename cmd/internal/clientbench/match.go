package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sort"
	"time"

	"parley/replay/simserver"
	"parley/schemas"
)

// result is what one load came to. Times are in milliseconds.
type result struct {
	load
	rows, ok, matched int
	statuses          map[schemas.Status]int
	verdict           string

	trueTTFT  []float64 // server: first write - receive
	ttftError []float64 // client's TTFT - the true one
	gapError  []float64 // |client's gap - the true one|
	sendLag   []float64 // sent - scheduled
	connWait  []float64 // sent - start
	lateStart []float64 // start - scheduled

	chunks               int64 // token-bearing, of matched requests
	from, to             int64 // Unix ns: first request received, last chunk written
	held                 time.Duration
	sentRate, rateWanted float64 // conversations per second

	serverStats simserver.Stats
	clientCPU   float64 // us per chunk while streams ran
	clientAll   float64 // us per chunk, the whole process
	serverCPU   float64 // us per chunk while streams ran
	clientPeak  int64   // bytes, at any time
	streamPeak  int64   // bytes, while streams ran
	idleMemory  int64   // bytes, of a client with one stream
	wrkCPU      float64 // us per chunk
	wrkChunks   int64
}

// readTruth reads the server's log, by response id.
func readTruth(path string) (map[string]*simserver.Truth, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := map[string]*simserver.Truth{}
	dec := json.NewDecoder(bufio.NewReaderSize(f, 1<<20))
	for {
		t := new(simserver.Truth)
		err := dec.Decode(t)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if out[t.ResponseID] != nil {
			return nil, fmt.Errorf("%s: response id %s twice", path, t.ResponseID)
		}
		out[t.ResponseID] = t
	}
}

// serverStats asks the server for its own view of the load; cert is its certificate's file, if it has one.
func serverStats(ctx context.Context, url, cert string) (s simserver.Stats, err error) {
	settings := &tls.Config{RootCAs: x509.NewCertPool()}
	if pem, err := os.ReadFile(cert); err == nil {
		settings.RootCAs.AppendCertsFromPEM(pem)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: settings, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/sim/stats", nil)
	if err != nil {
		return s, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	return s, json.NewDecoder(resp.Body).Decode(&s)
}

// match compares the client's rows with the server's log.
func (r *result) match(path string, truth map[string]*simserver.Truth) error {
	f, err := schemas.Open[schemas.Request](path)
	if err != nil {
		return err
	}
	defer f.Close()
	var meta schemas.RunMeta
	if err := f.Meta(&meta); err != nil {
		return err
	}
	if meta.Verdict != nil {
		r.verdict = string(meta.Verdict.Grade)
	}
	r.statuses = map[schemas.Status]int{}
	var sent, scheduled []int64
	for row, err := range f.Rows(0) {
		if err != nil {
			return err
		}
		r.rows++
		r.statuses[schemas.Status(row.Status)]++
		if schemas.Status(row.Status) == schemas.StatusOK {
			r.ok++
		}
		if row.SentNS != nil && row.ScheduledNS != nil {
			sent, scheduled = append(sent, *row.SentNS), append(scheduled, *row.ScheduledNS)
			r.sendLag = append(r.sendLag, float64(*row.SentNS-*row.ScheduledNS)/1e6)
			if row.StartNS != nil {
				r.connWait = append(r.connWait, float64(*row.SentNS-*row.StartNS)/1e6)
				r.lateStart = append(r.lateStart, float64(*row.StartNS-*row.ScheduledNS)/1e6)
			}
		}
		if row.ResponseID == nil {
			continue
		}
		if t := truth[*row.ResponseID]; t != nil {
			if err := r.add(&row, t); err != nil {
				return err
			}
		}
	}
	if r.matched == 0 {
		return fmt.Errorf("%s: no row of %d was matched with the server's log", path, r.rows)
	}
	r.held = time.Duration(r.to - r.from)
	r.sentRate, r.rateWanted = perSecond(sent), perSecond(scheduled)
	return nil
}

// perSecond gives the mean rate of events.
func perSecond(at []int64) float64 {
	if len(at) < 2 {
		return 0
	}
	lo, hi := slices.Min(at), slices.Max(at)
	if hi == lo {
		return 0
	}
	return float64(len(at)-1) / (float64(hi-lo) / 1e9)
}

// add compares one request.
func (r *result) add(row *schemas.Request, t *simserver.Truth) error {
	if row.FirstTokenNS == nil || row.SentNS == nil || t.FirstNS == 0 {
		return nil
	}
	r.matched++
	r.chunks += int64(t.Chunks)
	if r.from == 0 || t.ReceivedNS < r.from {
		r.from = t.ReceivedNS
	}
	r.to = max(r.to, t.LastNS)
	trueTTFT := float64(t.FirstNS-t.ReceivedNS) / 1e6
	r.trueTTFT = append(r.trueTTFT, trueTTFT)
	r.ttftError = append(r.ttftError, float64(*row.FirstTokenNS-*row.SentNS)/1e6-trueTTFT)
	if len(row.ChunkNS) != len(t.ChunkNS) {
		if schemas.Status(row.Status) == schemas.StatusOK {
			return fmt.Errorf("response %s: the client saw %d chunks, the server wrote %d", t.ResponseID, len(row.ChunkNS), len(t.ChunkNS))
		}
		return nil
	}
	for i := 1; i < len(t.ChunkNS); i++ {
		e := float64((row.ChunkNS[i]-row.ChunkNS[i-1])-(t.ChunkNS[i]-t.ChunkNS[i-1])) / 1e6
		r.gapError = append(r.gapError, max(e, -e))
	}
	return nil
}

// quantile interpolates between order statistics, as the rest of parley does. It sorts x.
func quantile(x []float64, p float64) float64 {
	if len(x) == 0 {
		return 0
	}
	sort.Float64s(x)
	pos := p * float64(len(x)-1)
	i := int(pos)
	if i+1 >= len(x) {
		return x[len(x)-1]
	}
	return x[i] + (pos-float64(i))*(x[i+1]-x[i])
}
