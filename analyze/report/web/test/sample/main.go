// Command sample writes reports of made-up runs for the browser tests, and the data they were made from:
//
//	sample -dir DIR
//
// gives one.html (a run with failures, groups, telemetry), two.html (a comparison), sweep.html (six runs)
// and hostile.html (texts that try to break out of the page), each with its .result.json and .plots.json.
//
//	sample -run FILE -rows N [-slow FACTOR] [-concurrency N]
//
// gives the result file of a made-up run of N turns.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"parley/analyze"
	"parley/analyze/report"
)

func main() {
	dir := flag.String("dir", ".", "where to write")
	path := flag.String("run", "", "the result file to write instead")
	rows := flag.Int("rows", 1000, "its rows")
	slow := flag.Float64("slow", 1, "scales the server's latencies")
	concurrency := flag.Int64("concurrency", 32, "conversations at once that its metadata tells")
	flag.Parse()
	var err error
	if *path != "" {
		err = writeRun(*path, *rows, *slow, *concurrency)
	} else {
		err = reports(*dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sample:", err)
		os.Exit(1)
	}
}

func reports(dir string) error {
	for name, make := range map[string]func() (*analyze.Result, *analyze.Plots){
		"one": one, "two": two, "sweep": sweep, "hostile": hostile,
	} {
		result, plots := make()
		if err := write(filepath.Join(dir, name), result, plots); err != nil {
			return err
		}
	}
	return nil
}

func write(base string, result *analyze.Result, plots *analyze.Plots) error {
	f, err := os.Create(base + ".html")
	if err != nil {
		return err
	}
	defer f.Close()
	if err := report.Write(f, result, plots); err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	if err := f.Close(); err != nil {
		return err
	}
	for suffix, v := range map[string]any{".result.json": result, ".plots.json": plots} {
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		if err := os.WriteFile(base+suffix, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
