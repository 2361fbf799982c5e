package generate_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"parley/generate"
)

// A dataset from a preset, and what it holds.
func Example() {
	dir, err := os.MkdirTemp("", "parley-example-*")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "chat.parquet")

	spec, err := generate.Preset("chat")
	if err != nil {
		fmt.Println(err)
		return
	}
	rep, err := generate.Run(context.Background(), generate.Options{Output: out, Spec: spec, Conversations: 25, Seed: 7}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := generate.Describe(context.Background(), out, generate.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rep.Conversations, "conversations")
	fmt.Println("all turns described:", d.Turns == rep.Turns)
	// Output:
	// 25 conversations
	// all turns described: true
}

// Every mistake of a config is told at once, with its place.
func ExampleParseSpec() {
	_, err := generate.ParseSpec([]byte(`
num_conversations: 10
prompt_input:
  num_turns: {distribution: uniform, min: two, max: 8}
  num_tokens: {distribution: lognormal, averge: 100}
`))
	fmt.Println(err)
	// Output:
	// prompt_input.num_tokens.averge: no such parameter of lognormal; here are average, distribution, max, mean, median, median_ratio, min, p90, sigma, weight
	// prompt_input.num_turns.min: expected a number and found the text "two"
}
