// Command sample writes reports of made-up runs for the browser tests, and the data they were made from:
//
//	sample -dir DIR
//
// gives one.html (a run with failures, groups, telemetry), two.html (a comparison), sweep.html (six runs),
// hostile.html (texts that try to break out of the page), and big.html (100,000 rows, written to big.parquet
// and analyzed from there), each with its .result.json and .plots.json.
//
//	sample -run FILE -rows N [-slow FACTOR] [-concurrency N]
//
// gives the result file of a made-up run of N turns.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"parley/analyze"
	"parley/analyze/plots"
	"parley/analyze/render"
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
		err = reports(context.Background(), *dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sample:", err)
		os.Exit(1)
	}
}

func reports(ctx context.Context, dir string) error {
	for name, make := range map[string]func() (*analyze.Result, *plots.Plots){
		"one": one, "two": two, "sweep": sweep, "hostile": hostile,
	} {
		result, plots := make()
		if err := write(filepath.Join(dir, name), result, plots); err != nil {
			return err
		}
	}
	return errors.Join(numbers(filepath.Join(dir, "numbers.json")), big(ctx, dir))
}

// numbers writes values as the tables print them, which the script has to print alike.
func numbers(path string) error {
	type printed struct {
		Value         float64
		Number, Share string
	}
	var list []printed
	for _, v := range []float64{0, 1, 0.5, 0.9996, 0.99996, 9.996, 99.96, 999.6, 12.3456, 1234.5678, 1234567.8, 0.031, 0.00123, 0.0000012, -0.25, -1234.6, 0.0105, 1.119} {
		list = append(list, printed{v, render.Number(analyze.Num(v)), render.Share(analyze.Num(v))})
	}
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// big makes a report the whole way: rows in a file, analysis, plots.
func big(ctx context.Context, dir string) error {
	path := filepath.Join(dir, "big.parquet")
	if err := writeRun(path, 100_000, 1, 32); err != nil {
		return err
	}
	runs, err := analyze.Load(ctx, []string{path})
	if err != nil {
		return err
	}
	defer runs.Close()
	turn, err := analyze.ParseGroup("turn")
	if err != nil {
		return err
	}
	options := analyze.Options{By: []analyze.GroupSpec{turn}, Window: analyze.WindowSpec{Kind: analyze.WindowAll}}
	result, err := analyze.Analyze(ctx, runs, options)
	if err != nil {
		return err
	}
	plots, err := analyze.BuildPlots(ctx, runs, result, options, plots.Budget{})
	if err != nil {
		return err
	}
	return write(filepath.Join(dir, "big"), result, plots)
}

func write(base string, result *analyze.Result, plots *plots.Plots) error {
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
