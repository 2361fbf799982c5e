// Command receiver is the OpenTelemetry collector's own OTLP receiver, over HTTP. It prints what it took as one JSON
// object, with an error for everything that is not as the conventions have it, when its standard input ends.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configgrpc"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
)

// result is what was received.
type result struct {
	Turns, Conversations, Orphans, Errors int
	SchemaURL                             string
	Names                                 map[string]int
	Input, Output                         int64              // tokens told by spans
	Metrics                               map[string]uint64  // counts of histograms
	Sums                                  map[string]float64 // and their sums
	Problems                              []string
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(address string) error {
	ctx := context.Background()
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig().(*otlpreceiver.Config)
	http := config.Protocols.HTTP.GetOrInsertDefault()
	http.ServerConfig.NetAddr.Endpoint = address
	config.Protocols.GRPC = configoptional.None[configgrpc.ServerConfig]()
	settings := receiver.Settings{ID: component.NewID(factory.Type()), TelemetrySettings: componenttest.NewNopTelemetrySettings()}
	traces, metrics := &consumertest.TracesSink{}, &consumertest.MetricsSink{}
	tr, err := factory.CreateTraces(ctx, settings, config, traces)
	if err != nil {
		return err
	}
	mr, err := factory.CreateMetrics(ctx, settings, config, metrics)
	if err != nil {
		return err
	}
	host := componenttest.NewNopHost()
	if err := tr.Start(ctx, host); err != nil {
		return err
	}
	if err := mr.Start(ctx, host); err != nil {
		return err
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	r := result{Names: map[string]int{}, Metrics: map[string]uint64{}, Sums: map[string]float64{}}
	r.spans(traces.AllTraces())
	r.histograms(metrics.AllMetrics())
	return json.NewEncoder(os.Stdout).Encode(r)
}

func (r *result) bad(format string, args ...any) {
	if len(r.Problems) < 20 {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
}

func (r *result) spans(all []ptrace.Traces) {
	parents := map[pcommon.SpanID]pcommon.TraceID{}
	var turns []ptrace.Span
	for _, t := range all {
		for _, rs := range t.ResourceSpans().All() {
			if v, ok := rs.Resource().Attributes().Get("service.name"); !ok || v.Str() != "parley" {
				r.bad("service.name is %v", v)
			}
			r.SchemaURL = rs.SchemaUrl()
			for _, ss := range rs.ScopeSpans().All() {
				for _, s := range ss.Spans().All() {
					if s.TraceID().IsEmpty() || s.SpanID().IsEmpty() || s.EndTimestamp() < s.StartTimestamp() || s.StartTimestamp() < 1e18 {
						r.bad("span %s: %s %s from %d to %d", s.Name(), s.TraceID(), s.SpanID(), s.StartTimestamp(), s.EndTimestamp())
					}
					if s.ParentSpanID().IsEmpty() {
						parents[s.SpanID()] = s.TraceID()
						r.Conversations++
					} else {
						turns = append(turns, s)
					}
				}
			}
		}
	}
	for _, s := range turns {
		r.Turns++
		r.Names[s.Name()]++
		if s.Kind() != ptrace.SpanKindClient {
			r.bad("span %s is of kind %s", s.Name(), s.Kind())
		}
		if parents[s.ParentSpanID()] != s.TraceID() {
			r.Orphans++
		}
		for _, name := range []string{"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.conversation.id", "server.address", "server.port"} {
			if _, ok := s.Attributes().Get(name); !ok {
				r.bad("span %s has no %s", s.Name(), name)
			}
		}
		if s.Status().Code() == ptrace.StatusCodeError {
			r.Errors++
			if _, ok := s.Attributes().Get("error.type"); !ok {
				r.bad("a failed span has no error.type")
			}
			continue
		}
		in, _ := s.Attributes().Get("gen_ai.usage.input_tokens")
		out, _ := s.Attributes().Get("gen_ai.usage.output_tokens")
		r.Input, r.Output = r.Input+in.Int(), r.Output+out.Int()
	}
}

// histograms takes the last of each cumulative stream.
func (r *result) histograms(all []pmetric.Metrics) {
	for _, m := range all {
		clear(r.Metrics)
		clear(r.Sums)
		for _, rm := range m.ResourceMetrics().All() {
			for _, sm := range rm.ScopeMetrics().All() {
				for _, m := range sm.Metrics().All() {
					if m.Type() != pmetric.MetricTypeHistogram || m.Histogram().AggregationTemporality() != pmetric.AggregationTemporalityCumulative {
						r.bad("%s is no cumulative histogram", m.Name())
						continue
					}
					for _, p := range m.Histogram().DataPoints().All() {
						name := m.Name()
						if t, ok := p.Attributes().Get("gen_ai.token.type"); ok {
							name += " " + t.Str()
						}
						var sum uint64
						for _, n := range p.BucketCounts().All() {
							sum += n
						}
						if sum != p.Count() || p.BucketCounts().Len() != p.ExplicitBounds().Len()+1 {
							r.bad("%s: %d in buckets, %d in all", name, sum, p.Count())
						}
						r.Metrics[name] += p.Count()
						r.Sums[name] += p.Sum()
					}
				}
			}
		}
	}
}
