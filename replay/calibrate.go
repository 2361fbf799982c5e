package replay

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/schemas"
)

// Simulator is a simulated server in a process of its own.
type Simulator struct {
	URL  string       // of the server
	Log  string       // its truth log: one JSON line per request
	Stop func() error // ends it; the log is whole then
}

// SimStarter starts a simulated server with the parameters of a sim: URL (without "sim:?" and without
// log, which the starter adds).
type SimStarter func(ctx context.Context, query string) (*Simulator, error)

// calibrateFor is how long a calibration starts turns.
const calibrateFor = 20 * time.Second

// errFewMatches is wrapped by the error of a calibration of which too little can be used.
var errFewMatches = errors.New("too few of its requests were answered in full and found in the simulated server's log")

// Calibrate measures what this client adds at the load of a run: it replays the same schedule (for 20 s,
// or the run's own length if that is shorter) against a simulated server in a process of its own that
// answers at about the pace of the run's server, and compares what it measured with what that server
// logged, request by request. of is the run's outcome; nil calibrates before any run, against a pace of
// 200 ms to the first token and 20 ms per token.
//
// The TTFT error is measured TTFT minus true one: from the arrival of the request's last byte at the
// server (the kernel's stamp) to just before the first token was handed to the kernel. The way over
// loopback is in it. The gap error is the absolute difference of measured and true distance of
// neighbouring chunks. The simulated server is spoken to as the run's is: over TLS and by HTTP/2 where that is so;
// Calibration.Path names the way, and what of the run's it is without (a proxy, a Unix socket). The send lag is sent minus ready: what the client took to send a turn that could go.
func Calibrate(ctx context.Context, cfg Config, of *Outcome, start SimStarter) (_ *schemas.Calibration, err error) {
	dir, err := os.MkdirTemp("", "parley-calibration-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	query, when := pace(of)
	way := wayOf(cfg, of)
	cfg = calibrationConfig(cfg, of)
	if cfg.HTTP2 = way.http2; way.http2 {
		query.Set("http2", "true")
	}
	if way.tls {
		cfg.CAFile = filepath.Join(dir, "cert.pem")
		query.Set("tls_cert", cfg.CAFile)
	}
	cfg.Output = filepath.Join(dir, "calibration.parquet")
	sim, err := start(ctx, query.Encode())
	if err != nil {
		return nil, fmt.Errorf("calibration: %w", err)
	}
	cfg.URLs = []string{sim.URL}
	out, err := Run(ctx, cfg, Hooks{})
	if stopErr := sim.Stop(); err == nil {
		err = stopErr
	}
	if err != nil {
		return nil, fmt.Errorf("calibration: %w", err)
	}
	truths, err := readTruths(sim.Log)
	if err != nil {
		return nil, fmt.Errorf("calibration: %w", err)
	}
	c, err := compare(out.Journal, truths)
	if err != nil {
		return nil, fmt.Errorf("calibration: %w", err)
	}
	c.Streams = out.Meta.Health.PeakInFlight
	query.Del("tls_cert") // gone with its folder
	c.Description, c.When, c.Path = "sim:?"+query.Encode(), when, way.String()
	return c, nil
}

// way is how a run reaches its servers, as far as it decides how exact a client can be.
type way struct {
	tls, http2 bool
	without    string // what the simulated server is reached without
}

func wayOf(cfg Config, of *Outcome) way {
	w := way{http2: cfg.HTTP2 || of != nil && of.HTTP2}
	for _, u := range cfg.URLs {
		w.tls = w.tls || strings.HasPrefix(u, "https:")
		if strings.HasPrefix(u, "unix:") || strings.HasPrefix(u, "http+unix:") || cfg.UnixSocket != "" {
			w.without = ", without the run's Unix socket"
		}
	}
	if cfg.Proxy != "" {
		w.without = ", without the run's proxy"
	}
	return w
}

func (w way) String() string {
	text := "HTTP/1.1"
	if w.http2 {
		text = "HTTP/2"
	}
	if w.tls {
		text += " over TLS"
	}
	return text + w.without
}

// pace gives the simulated server's parameters.
func pace(of *Outcome) (query url.Values, when string) {
	ttft, itl, when := 200.0, 20.0, "before"
	if of != nil {
		when = "after"
		if of.Pace.TTFTMS > 0 {
			ttft = of.Pace.TTFTMS
		}
		if of.Pace.TPOTMS > 0 {
			itl = of.Pace.TPOTMS
		}
	}
	us := func(ms float64) string {
		return (time.Duration(max(ms, 0.01)*1000) * time.Microsecond).String()
	}
	return url.Values{
		"ttft": {us(ttft)}, "itl": {us(itl)}, "jitter": {"0.1"}, "slots": {"0"}, "log_chunks": {"true"},
		"max_model_len": {strconv.Itoa(math.MaxInt32)},
	}, when
}

// calibrationConfig gives the same load without what concerns the run's own server.
func calibrationConfig(cfg Config, of *Outcome) Config {
	d := calibrateFor
	if cfg.Duration > 0 {
		d = min(d, cfg.Duration)
	}
	if of != nil {
		if length := time.Duration(of.Meta.EndedNS); length > 0 {
			d = min(d, max(length, time.Second))
		}
	}
	cfg.Duration = d
	cfg.Deadline = 0
	cfg.Grace = 5 * time.Second
	cfg.Resume, cfg.StartAt = false, time.Time{}
	cfg.Model, cfg.APIKey, cfg.APIKeyFile, cfg.Headers = "", "", "", nil
	cfg.ClientCert, cfg.ClientKey, cfg.Cancel, cfg.VerifyOutput = "", "", "", ""
	cfg.CAFile, cfg.Insecure, cfg.Proxy, cfg.UnixSocket, cfg.Path = "", false, "", "", ""
	cfg.FlushCache, cfg.SaveText, cfg.Retries = false, false, 0
	cfg.Scrape = []string{"none"}
	cfg.Metrics, cfg.Traceparent, cfg.OTLP = "", false, ""
	cfg.Simulated = true
	return cfg
}

// truth is what the comparison needs of a line of a simulated server's log.
type truth struct {
	ResponseID string  `json:"response_id"`
	ReceivedNS int64   `json:"received_ns"`
	FirstNS    int64   `json:"first_write_ns"`
	ChunkNS    []int64 `json:"chunk_ns"`
}

func readTruths(path string) (map[string]truth, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	out := map[string]truth{}
	dec := json.NewDecoder(bufio.NewReaderSize(file, 1<<20))
	for {
		var t truth
		switch err := dec.Decode(&t); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("%s: after %d lines: %w", path, len(out), err)
		}
		out[t.ResponseID] = t
	}
}

// compare holds the rows of a journal against the truth.
func compare(journal string, truths map[string]truth) (*schemas.Calibration, error) {
	var ttft, gaps, lags []float64
	_, err := schemas.ReadJournal(journal, func(rows []schemas.Request) error {
		for i := range rows {
			row := &rows[i]
			if row.ReadyNS != nil && row.SentNS != nil {
				lags = append(lags, float64(*row.SentNS-*row.ReadyNS)/1e6)
			}
			if row.Status != string(schemas.StatusOK) || row.ResponseID == nil || row.TTFTMS == nil {
				continue
			}
			t, ok := truths[*row.ResponseID]
			if !ok || t.FirstNS == 0 {
				continue
			}
			ttft = append(ttft, *row.TTFTMS-float64(t.FirstNS-t.ReceivedNS)/1e6)
			if len(t.ChunkNS) != len(row.ChunkNS) {
				continue // the server put tokens together otherwise than the client saw them
			}
			for k := 1; k < len(t.ChunkNS); k++ {
				d := (row.ChunkNS[k] - row.ChunkNS[k-1]) - (t.ChunkNS[k] - t.ChunkNS[k-1])
				gaps = append(gaps, math.Abs(float64(d))/1e6)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(ttft) < 10 {
		return nil, fmt.Errorf("%w: %d", errFewMatches, len(ttft))
	}
	return &schemas.Calibration{
		Requests:   int64(len(ttft)),
		TTFTErrP50: quantile(ttft, 0.5), TTFTErrP99: quantile(ttft, 0.99),
		GapErrP50: quantile(gaps, 0.5), GapErrP99: quantile(gaps, 0.99),
		SendLagP99: quantile(lags, 0.99),
	}, nil
}

// quantile gives a quantile by linear interpolation between order statistics, 0 of nothing. It sorts v.
func quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	at := q * float64(len(v)-1)
	i := int(at)
	if i+1 == len(v) {
		return v[i]
	}
	return v[i] + (at-float64(i))*(v[i+1]-v[i])
}
