package analyze

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// configChanges lists the settings that differ.
func configChanges(a, b *run) []ConfigChange {
	x, y := flatConfig(a), flatConfig(b)
	names := map[string]bool{}
	for k := range x {
		names[k] = true
	}
	for k := range y {
		names[k] = true
	}
	var out []ConfigChange
	for _, k := range sortedNames(names) {
		if x[k] != y[k] {
			out = append(out, ConfigChange{k, x[k], y[k]})
		}
	}
	return out
}

func sortedNames(m map[string]bool) []string {
	names := make([]string, 0, len(m))
	for k := range m {
		names = append(names, k)
	}
	slices.Sort(names)
	return names
}

// flatConfig gives the settings of a run, and what it found, by dotted path.
func flatConfig(r *run) map[string]string {
	out := map[string]string{}
	var config any
	if len(r.meta.Config) > 0 && json.Unmarshal(r.meta.Config, &config) == nil {
		flatten(out, "config", config)
	}
	for _, skip := range []string{"config.output", "config.out", "config.label"} {
		delete(out, skip)
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
		out[prefix+"url"], out[prefix+"api"], out[prefix+"model"], out[prefix+"server"] = t.URL, t.API, t.Model, t.Server
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
