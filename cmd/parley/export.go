package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"parley/analyze"
	"parley/analyze/export"
	"parley/schemas"
)

// facts gives what the operator told of the server: the file's, and over them those of the command line.
func (c *analyzeCommand) facts() (export.Facts, error) {
	f := export.Facts{}
	if c.Facts != "" {
		var err error
		if f, err = export.ReadFacts(c.Facts); err != nil {
			return nil, err
		}
	}
	for _, text := range c.Fact {
		if err := f.Set(text); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// isExport says whether the format is the layout of another program.
func (c *analyzeCommand) isExport() bool {
	switch c.Format {
	case "table", "json", "csv", "markdown":
		return false
	}
	return true
}

// exportsFolder says whether the output is a folder of files, whose names come from the runs.
func (c *analyzeCommand) exportsFolder() bool {
	st, err := os.Stat(c.Output)
	return c.isExport() && (export.IsFolder(c.Format) || err == nil && st.IsDir() || c.Output != "" && os.IsPathSeparator(c.Output[len(c.Output)-1]))
}

// export writes the runs in the layout of another program: one file to the output or to standard output, several into
// the output as a folder.
func (c *analyzeCommand) export(ctx context.Context, p *program, ui *ui, runs *analyze.Runs, result *analyze.Result, o analyze.Options, facts export.Facts) error {
	files, err := export.Files(ctx, c.Format, runs, result, o, c.Percentiles, facts)
	if err != nil {
		return err
	}
	if c.Output == "" {
		for _, f := range files {
			if err := f.Write(p.stdout); err != nil {
				return err
			}
		}
		return nil
	}
	name := func(f export.File) string { return filepath.Join(c.Output, filepath.FromSlash(f.Path)) }
	if len(files) == 1 && !c.exportsFolder() {
		name = func(export.File) string { return c.Output }
	}
	var problems []error
	for _, f := range files {
		problems = append(problems, os.MkdirAll(filepath.Dir(name(f)), 0o755), schemas.CheckOutput(name(f), c.Force))
	}
	if err := errors.Join(problems...); err != nil {
		return usageError(err)
	}
	for _, f := range files {
		if err := writeExport(name(f), c.Force, f); err != nil {
			return err
		}
	}
	if len(files) > 1 {
		ui.note("%s files are in %s", thousands(int64(len(files))), c.Output)
	}
	return nil
}

func writeExport(path string, force bool, f export.File) error {
	out, err := createText(path, force)
	if err != nil {
		return err
	}
	defer out.drop()
	if err := f.Write(out); err != nil {
		return err
	}
	return out.finish()
}
