// Loadbench runs the loads on which the clients that parley replaces deadlock, lose requests or grow
// without bound, with the parley binary against its simulated server, and prints what came of each:
//
//   - many long conversations, few at once, and a budget of requests that ends far before they do;
//   - as many conversations at once as there are, or nearly so;
//   - a sustained run, whose memory has to stay flat.
//
// It exits non-zero if a planned turn has no row, if there are more rows than turns, or if a run does not
// end in its time.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"parley/schemas"
)

// load is one run.
type load struct {
	name    string
	dataset string
	sim     string
	args    []string
	sent    int64 // turns that have to be sent; 0: all that the dataset has
	flat    bool  // the client's memory must not grow in the second half
}

// Conversations of 30 to 40 turns and 30 to 80 KB, as in the reports of deadlocks: larger than a pipe's
// buffer.
const longConfig = `{"filetype": "generate_conversations", "num_conversations": 2000, "text_files": [],
 "prompt_input": {"num_turns": {"distribution": "uniform", "min": 60, "max": 80},
  "common_prefix_num_tokens": {"distribution": "constant", "value": 200},
  "prefix_num_tokens": {"distribution": "lognormal", "average": 200, "max": 2000},
  "num_tokens": {"distribution": "uniform", "min": 100, "max": 250}},
 "prompt_output": {"num_tokens": {"distribution": "uniform", "min": 100, "max": 250}}}`

func loads() []load {
	var list []load
	for _, c := range []int{2, 4, 8, 10, 100} {
		list = append(list, load{
			name: fmt.Sprintf("2,000 long conversations, %d at once, 200 requests", c), dataset: "long", sent: 200,
			sim:  "sim:?itl=1ms&base=2ms&prefill=1000000&slots=0",
			args: []string{"--concurrency", strconv.Itoa(c), "--requests", "200"},
		})
	}
	for _, c := range []int{200, 500, 1000, 2000} {
		list = append(list, load{
			name: fmt.Sprintf("2,000 conversations, %d at once", c), dataset: "short",
			sim:  "sim:?itl=20ms&base=20ms&prefill=1000000&slots=0&chunk_tokens=8",
			args: []string{"--concurrency", strconv.Itoa(c)},
		})
	}
	return append(list, load{
		name: "sustained: 100 at once, 4,000 requests", dataset: "long", sent: 4000, flat: true,
		sim:  "sim:?itl=5ms&base=10ms&prefill=1000000&slots=0",
		args: []string{"--concurrency", "100", "--requests", "4000"},
	})
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "loadbench:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	if len(os.Args) != 2 {
		return errors.New("usage: loadbench PARLEY")
	}
	parley, err := filepath.Abs(os.Args[1])
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "loadbench")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	config := filepath.Join(dir, "long.json")
	if err := os.WriteFile(config, []byte(longConfig), 0o644); err != nil {
		return err
	}
	data := map[string]string{"long": filepath.Join(dir, "long.parquet"), "short": filepath.Join(dir, "short.parquet")}
	if err := call(parley, time.Minute, "generate", "-o", data["long"], "--config", config); err != nil {
		return err
	}
	if err := call(parley, time.Minute, "generate", "-o", data["short"], "--preset", "chat", "-n", "2000"); err != nil {
		return err
	}
	fmt.Println("| load | seconds | planned | rows | ok | not reached | other | peak at once | peak memory | memory, half-way -> end |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	var failures []error
	for i, l := range loads() {
		out := filepath.Join(dir, fmt.Sprintf("run%d.parquet", i))
		begin := time.Now()
		args := append([]string{"replay", data[l.dataset], "--url", l.sim, "-o", out, "--think", "none"}, l.args...)
		if err := call(parley, 5*time.Minute, args...); err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", l.name, err))
			continue
		}
		if err := report(l, out, time.Since(begin)); err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", l.name, err))
		}
	}
	return errors.Join(failures...)
}

// call runs the program; a run that does not end in time is killed and is an error. The exit code of an
// INVALID verdict is none: a load without think time may well saturate this machine.
func call(parley string, limit time.Duration, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	text, err := exec.CommandContext(ctx, parley, args...).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 3 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("parley %s: %w (%w)\n%s", strings.Join(args, " "), err, context.Cause(ctx), text)
	}
	return nil
}

func report(l load, out string, took time.Duration) error {
	f, err := schemas.Open[schemas.Request](out)
	if err != nil {
		return err
	}
	defer f.Close()
	var meta schemas.RunMeta
	if err := f.Meta(&meta); err != nil {
		return err
	}
	if meta.Health == nil {
		return errors.New("no client health in the metadata")
	}
	seen := map[string]bool{}
	counts := map[schemas.Status]int64{}
	for r, err := range f.Rows(0) {
		if err != nil {
			return err
		}
		id := fmt.Sprint(r.ConversationID, "/", r.Instance, "/", r.Turn)
		if seen[id] {
			return fmt.Errorf("turn %s has two rows", id)
		}
		seen[id] = true
		counts[schemas.Status(r.Status)]++
	}
	half, end, err := memory(schemas.TelemetryPath(out))
	if err != nil {
		return err
	}
	rows := int64(len(seen))
	ok, not := counts[schemas.StatusOK], counts[schemas.StatusNotReached]
	fmt.Printf("| %s | %.1f | %d | %d | %d | %d | %d | %d | %.0f MB | %.0f -> %.0f MB |\n", l.name, took.Seconds(), meta.Planned,
		rows, ok, not, rows-ok-not, meta.Health.PeakActive, float64(meta.Health.PeakRSSBytes)/1e6, half/1e6, end/1e6)
	want := l.sent
	if want == 0 {
		want = meta.Dataset.Turns
	}
	switch {
	case rows != meta.Planned || rows != meta.Rows:
		return fmt.Errorf("%d rows, %d planned, %d in the metadata", rows, meta.Planned, meta.Rows)
	case ok != want:
		return fmt.Errorf("%d turns are ok, %d should be: %v", ok, want, counts)
	case l.flat && end > 1.25*half+16e6:
		return fmt.Errorf("memory grew from %.0f to %.0f MB in the second half", half/1e6, end/1e6)
	}
	return nil
}

// memory gives the client's resident memory half-way through a run and at its end.
func memory(telemetry string) (half, end float64, err error) {
	f, err := schemas.Open[schemas.Sample](telemetry)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	var rss []float64
	for s, err := range f.Rows(0) {
		if err != nil {
			return 0, 0, err
		}
		if s.Source == "client" && s.Name == "rss_bytes" {
			rss = append(rss, s.Value)
		}
	}
	if len(rss) == 0 {
		return 0, 0, errors.New("no rss_bytes in the telemetry")
	}
	return rss[len(rss)/2], rss[len(rss)-1], nil
}
