package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"

	"parley/generate"
	"parley/generate/fit"
	"parley/generate/importer"
	"parley/generate/tokenizer"
)

// learn tells the workload of the sources of --like as a specification. With --spec-only it prints it.
func (c *generateCommand) learn(ctx context.Context, p *program, ui *ui) (*generate.Spec, error) {
	name := c.Tokenizer
	if name == "" {
		name = tokenizer.Default
	}
	tok, err := tokenizer.Load(name)
	if err != nil {
		return nil, usageError(fmt.Errorf("--tokenizer: %w", err))
	}
	ui.progress("learning")
	seen, err := fit.Observe(ctx, c.Like, importer.Options{
		Format: importer.Format(c.Format), Tokenizer: tok, Stdin: p.stdin, Columns: c.Column, Join: importer.Join(c.Join), BlockSize: c.BlockSize,
	})
	if err != nil {
		return nil, fmt.Errorf("--like: %w", err)
	}
	spec, err := seen.Spec()
	ui.done()
	if err != nil {
		return nil, fmt.Errorf("--like: %w", err)
	}
	for _, n := range seen.Notes() {
		ui.note("learned: %s", n)
	}
	if !c.SpecOnly {
		return spec, nil
	}
	text, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return nil, err
	}
	// A list of numbers is one line.
	text = numbers.ReplaceAllFunc(text, func(list []byte) []byte {
		return append(append([]byte("["), bytes.Join(bytes.Fields(list[1:len(list)-1]), []byte(" "))...), ']')
	})
	_, err = fmt.Fprintf(p.stdout, "%s\n", text)
	return spec, err
}

var numbers = regexp.MustCompile(`\[[-+0-9.e,\s]+\]`)
