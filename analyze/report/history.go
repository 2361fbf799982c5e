package report

import (
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"

	"parley/analyze"
	words "parley/analyze/render"
)

// WriteHistory writes a history as one page that opens offline: a line for each figure, with intervals, and where it
// changed.
func WriteHistory(w io.Writer, h *analyze.History) error { return historyPage.Execute(w, h) }

var historyPage = template.Must(template.New("history").Funcs(template.FuncMap{"plot": historyPlot, "say": func(s analyze.HistorySeries, c analyze.HistoryChange) string { return words.HistoryChange(&s, &c) }}).Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>parley: history of {{.Dir}}</title>
<style>
:root { color-scheme: light dark; --line: #2563a8; --band: #2563a833; --bad: #b3261e; --good: #1b7f3b; --rule: #8885 }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem }
h2 { border-top: 1px solid var(--rule); padding-top: 1rem }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(22rem, 1fr)); gap: 1.2rem }
figure { margin: 0 } figcaption { font-weight: 600 } svg { width: 100%; height: auto }
.WORSE { color: var(--bad) } .BETTER { color: var(--good) } small { opacity: .75 }
svg text { font: 10px system-ui, sans-serif; fill: currentColor }
@media (prefers-color-scheme: dark) { :root { --line: #7fb2f0; --band: #7fb2f033; --bad: #ff8a80; --good: #7ddc9a } }
</style></head><body>
<h1>History of {{.Dir}}</h1>
<p>Of the figures said to have changed, {{printf "%.0f" .Percent}} % at most have not, on average. Bands are 95 % intervals: over the repeats of a plan, or within a run.</p>
{{range .Warnings}}<p class="WORSE">{{.}}</p>{{end}}
{{range .Groups}}<section><h2>{{.Title}} <small>configuration {{.Hash}}</small></h2><div class="plots">
{{range $s := .Series}}<figure><figcaption>{{.Figure}} <small>{{.Unit}}</small></figcaption>{{plot .}}
{{range .Changes}}<div class="{{if .Worse}}WORSE{{else}}BETTER{{end}}">{{.When.Format "2006-01-02 15:04"}}: {{say $s .}}</div>{{end}}</figure>
{{end}}</div></section>{{end}}
</body></html>
`))

// historyPlot draws a series.
func historyPlot(s analyze.HistorySeries) template.HTML {
	const width, height, left, top, bottom = 420.0, 150.0, 52.0, 8.0, 20.0
	low, high := math.Inf(1), math.Inf(-1)
	for _, p := range s.Points {
		for _, v := range []analyze.Num{p.Value, p.Low, p.High} {
			if v.Known() {
				low, high = min(low, float64(v)), max(high, float64(v))
			}
		}
	}
	if !(high > low) {
		low, high = low-0.5*math.Abs(low)-1e-9, high+0.5*math.Abs(high)+1e-9
	}
	first, last := s.Points[0].When, s.Points[len(s.Points)-1].When
	x := func(i int) float64 {
		if span := last.Sub(first); span > 0 {
			return left + (width-left-8)*float64(s.Points[i].When.Sub(first))/float64(span)
		}
		return (left + width) / 2
	}
	y := func(v analyze.Num) float64 { return top + (height-top-bottom)*(high-float64(v))/(high-low) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img">`, width, height)
	for _, v := range []float64{low, high} {
		fmt.Fprintf(&b, `<line x1="%g" x2="%g" y1="%.1f" y2="%.1f" stroke="var(--rule)"/><text x="%g" y="%.1f" text-anchor="end">%.4g</text>`, left, width-8, y(analyze.Num(v)), y(analyze.Num(v)), left-4, y(analyze.Num(v))+3, v)
	}
	fmt.Fprintf(&b, `<text x="%g" y="%g">%s</text><text x="%g" y="%g" text-anchor="end">%s</text>`, left, height-4, first.Format("2006-01-02"), width-8, height-4, last.Format("2006-01-02"))
	for _, c := range s.Changes {
		color := "var(--good)"
		if c.Worse {
			color = "var(--bad)"
		}
		at := (x(c.At-1) + x(c.At)) / 2
		fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%g" y2="%g" stroke="%s" stroke-width="2" stroke-dasharray="4 3"/>`, at, at, top, height-bottom, color)
	}
	var line strings.Builder
	for i, p := range s.Points {
		if p.Low.Known() && p.High.Known() {
			fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="var(--band)" stroke-width="5"/>`, x(i), x(i), y(p.Low), y(p.High))
		}
		fmt.Fprintf(&line, "%.1f,%.1f ", x(i), y(p.Value))
	}
	fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="var(--line)" stroke-width="1.5"/>`, line.String())
	for i, p := range s.Points {
		fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="2.5" fill="var(--line)"><title>%s</title></circle>`, x(i), y(p.Value),
			template.HTMLEscapeString(fmt.Sprintf("%s: %.5g, %d run(s), %s", p.When.Format("2006-01-02 15:04"), float64(p.Value), p.Runs, p.File)))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}
