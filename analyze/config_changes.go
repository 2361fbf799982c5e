package analyze

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"parley/analyze/compare"
)

// configChanges lists the settings that differ between two groups of runs. A setting that differs between
// the runs of a group (the seed of repeats) is one of several values, and differs if these do.
func configChanges(a, b []*run) []compare.ConfigChange {
	x, y := settingsOf(a), settingsOf(b)
	names := map[string]bool{}
	for k := range x {
		names[k] = true
	}
	for k := range y {
		names[k] = true
	}
	var out []compare.ConfigChange
	for _, k := range slices.Sorted(maps.Keys(names)) {
		if before, after := strings.Join(x[k], " | "), strings.Join(y[k], " | "); before != after {
			out = append(out, compare.ConfigChange{Setting: k, Baseline: before, Candidate: after})
		}
	}
	return out
}

// settingsOf gives the different values of each setting of some runs, in order.
func settingsOf(runs []*run) map[string][]string {
	out := map[string][]string{}
	for _, r := range runs {
		for k, v := range flatConfig(r) {
			if !slices.Contains(out[k], v) {
				out[k] = append(out[k], v)
			}
		}
	}
	for _, values := range out {
		slices.Sort(values)
	}
	return out
}

// flatConfig gives the settings of a run, and what it found, by dotted path.
func flatConfig(r *run) map[string]string {
	out := map[string]string{}
	var config any
	if len(r.meta.Config) > 0 && json.Unmarshal(r.meta.Config, &config) == nil {
		flatten(out, "config", config)
	}
	for _, skip := range []string{"config.output", "config.out", "config.label", "config.run_id", "config.resume"} {
		delete(out, skip)
	}
	if r.meta.Simulated {
		delete(out, "config.urls")
	}
	out["tool_version"] = r.meta.ToolVersion
	out["dataset"] = r.meta.Dataset.ContentHash
	out["seed"] = fmt.Sprint(r.meta.Seed)
	out["clock"] = r.meta.Clock.Source
	out["host.cpu"] = r.meta.Host.CPU
	out["host.cpus"] = fmt.Sprint(r.meta.Host.CPUs)
	out["host.kernel"] = r.meta.Host.Kernel
	for i, t := range r.meta.Targets {
		prefix := fmt.Sprintf("target.%d.", i)
		if !r.meta.Simulated { // a simulated server listens on a port of the day
			out[prefix+"url"] = t.URL
		}
		out[prefix+"api"], out[prefix+"model"], out[prefix+"server"] = t.API, t.Model, t.Server
	}
	return out
}

func flatten(out map[string]string, path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, child := range v {
			flatten(out, path+"."+k, child)
		}
	case []any:
		parts := make([]string, len(v))
		for i, child := range v {
			if text, ok := child.(string); ok {
				parts[i] = text
				continue
			}
			text, err := json.Marshal(child)
			if err != nil {
				text = []byte(fmt.Sprint(child))
			}
			parts[i] = string(text)
		}
		out[path] = strings.Join(parts, ", ")
	case nil:
	default:
		out[path] = fmt.Sprint(v)
	}
}
