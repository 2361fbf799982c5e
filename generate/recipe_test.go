package generate_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/generate"
)

// A config and lengths are laid over a preset: what they give takes the place of what was there, with what
// excludes it, and nothing else changes.
func TestRecipeLaysOver(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	turns := file("turns.yaml", "num_conversations: 7\nprompt_input: {num_turns: 6}\narrivals: {rate: 2}\ntool_use: null\n")
	pairs := file("pairs.yaml", "joint_num_tokens: {file: lengths.csv, input: in, output: out, weight: n}\n")
	lengths := file("lengths.csv", "in,out,n\n1000,10,1\n2000,20,3\n")
	for name, c := range map[string]struct {
		recipe generate.Recipe
		want   map[string]string // part of the specification's JSON; "" for null or absent
	}{
		"lengths alone": {generate.Recipe{InputTokens: "1000", OutputTokens: "normal(200,50)", SharedPrefix: "5:9"}, map[string]string{
			"num_conversations": "1000", "prompt_input.num_requests": `{"distribution":"constant","value":1}`, "prompt_input.num_tokens": `{"distribution":"constant","value":1000}`,
			"prompt_output.num_tokens": `{"distribution":"normal","mean":200,"sd":50}`, "shared_prefix.num_tokens": `{"distribution":"uniform","max":9,"min":5}`, "shared_prefix.groups": "1",
		}},
		"config over preset": {generate.Recipe{Preset: "coding-agent", Config: turns}, map[string]string{
			"num_conversations": "7", "prompt_input.num_requests": "", "prompt_input.num_turns.value": "6", "arrivals.rate": "2", "tool_use": "", "prompt_input.prefix_num_tokens.value": "10000", "preset": `"coding-agent"`,
		}},
		"turns over config": {generate.Recipe{Preset: "chat", Config: turns, Turns: "3"}, map[string]string{
			"prompt_input.num_requests.value": "3", "prompt_input.num_turns": "", "num_conversations": "7",
		}},
		"input over preset": {generate.Recipe{Preset: "longchat", InputTokens: "20", SharedPrefix: "90"}, map[string]string{
			"prompt_input.first_num_tokens": "", "prompt_input.num_tokens.value": "20", "prompt_output.num_tokens.median": "200", "shared_prefix.groups": "16", "shared_prefix.num_tokens.value": "90",
		}},
		"pairs over preset": {generate.Recipe{Preset: "longchat", Config: pairs}, map[string]string{
			"prompt_input.num_tokens": "", "prompt_input.first_num_tokens": "", "prompt_output.num_tokens": "", "joint_num_tokens.rows": "[[1000,10],[2000,20]]", "joint_num_tokens.weights": "[1,3]",
		}},
		"pairs by flags": {generate.Recipe{Preset: "chat", InputTokens: lengths + ":in", OutputTokens: lengths + ":out"}, map[string]string{
			"prompt_input.num_tokens": "", "joint_num_tokens.rows": "[[1000,10],[2000,20]]", "joint_num_tokens.weights": "",
		}},
		"lengths over pairs": {generate.Recipe{Config: pairs, Turns: "2", InputTokens: lengths + ":in", OutputTokens: "3"}, map[string]string{
			"joint_num_tokens": "", "prompt_input.num_tokens.values": "[1000,2000]", "prompt_output.num_tokens.value": "3",
		}},
	} {
		s, err := c.recipe.Spec()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		for path, want := range c.want {
			var v any
			if err := json.Unmarshal(text, &v); err != nil {
				t.Fatal(err)
			}
			for _, key := range strings.Split(path, ".") {
				m, _ := v.(map[string]any)
				v = m[key]
			}
			got, _ := json.Marshal(v)
			if want == "" {
				want = "null"
			}
			if string(got) != want {
				t.Errorf("%s: %s is %s, want %s", name, path, got, want)
			}
		}
	}
	// All that is wrong is told at once, names, types and values, and each only once.
	bad := file("bad.yaml", "num_conversation: 7\nprompt_output: {num_tokens: {distribution: zipf, alpha: 0.5}}\nshared_prefix: {groups: -1}\n")
	_, err := generate.Recipe{Preset: "chat", Config: bad, Turns: "x", InputTokens: "absent.csv:in"}.Spec()
	for _, want := range []string{"num_conversation: no such setting", "prompt_output.num_tokens.alpha: 0.5", "shared_prefix.groups: -1", `--turns: "x" is no number`, "--input-tokens.file: open absent.csv"} {
		if n := strings.Count(err.Error(), want); n != 1 {
			t.Errorf("%q is told %d times in: %v", want, n, err)
		}
	}
}
