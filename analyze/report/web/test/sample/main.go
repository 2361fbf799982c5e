// Command sample writes reports of made-up runs for the browser tests, and the data they were made from:
//
//	sample -dir DIR
//
// gives one.html (a run with failures, groups, telemetry), two.html (a comparison), sweep.html (six runs)
// and hostile.html (texts that try to break out of the page), each with its .result.json and .plots.json.
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
	flag.Parse()
	if err := run(*dir); err != nil {
		fmt.Fprintln(os.Stderr, "sample:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
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
