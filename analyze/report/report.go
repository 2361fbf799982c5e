// Package report renders an analysis as one HTML file that opens offline: verdict, tables and configuration
// as plain HTML, and interactive plots drawn by an embedded script from embedded data.
//
// The package computes no figure. Tables print what is in [analyze.Result], plots draw [plots.Plots].
//
// Whatever a server, a dataset or a command line put into names, errors and texts stays text: the tables go
// through html/template, the data is JSON in which the characters that could end its element are escaped,
// and the page's content security policy lets nothing run but the one script whose hash it names, and
// nothing at all be fetched.
//
// The script and the style sheet are built from web/ (see its README) and committed, so that neither
// building nor using parley needs npm.
package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page, the script and the style sheet
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"parley/analyze"
	"parley/analyze/plots"
	"parley/analyze/render"
)

//go:embed web/dist/report.js
var script string

//go:embed web/dist/report.css
var style string

//go:embed page.tmpl
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{"grade": grade}).Parse(pageText))

// policy lets the page's own script and style sheet work and nothing else: no network, no other script, no
// event handler in markup, no string that becomes markup.
func policy() string {
	hash := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return strings.Join([]string{
		"default-src 'none'",
		"script-src " + hash(script),
		"style-src " + hash(style),
		"base-uri 'none'",
		"form-action 'none'",
		"require-trusted-types-for 'script'",
	}, "; ")
}

// Write renders the report of a result and its plots. The plots' runs are in the order of the result's.
func Write(w io.Writer, result *analyze.Result, drawn *plots.Plots) error {
	if len(drawn.Runs) != len(result.Runs) {
		return fmt.Errorf("report: the result has %d runs, the plots %d", len(result.Runs), len(drawn.Runs))
	}
	resultJSON, err := embed(result)
	if err != nil {
		return fmt.Errorf("report: result: %w", err)
	}
	runs := render.Named(result).Runs
	drawn = &plots.Plots{Runs: slices.Clone(drawn.Runs)}
	for i := range runs {
		drawn.Runs[i].Label = runs[i].Label
	}
	plotsJSON, err := embed(drawn)
	if err != nil {
		return fmt.Errorf("report: plots: %w", err)
	}
	p := newPage(result)
	p.Policy = policy()
	p.Script = template.JS(script)
	p.Style = template.CSS(style)
	p.ResultJSON = resultJSON
	p.PlotsJSON = plotsJSON
	var buf bytes.Buffer
	if err := pageTemplate.Execute(&buf, p); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if _, err := w.Write(buf.Bytes()); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// embed gives v as JSON that is safe inside a script element: json.Marshal writes <, >, & and the two line
// separators of Unicode as escapes, in keys and in raw messages too.
func embed(v any) (template.JS, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	return template.JS(text), nil
}
