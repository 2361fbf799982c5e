package main

import (
	"errors"
	"fmt"
	"os"

	"parley/schemas"
)

// textFile is an output that has its name only once it is whole.
type textFile struct {
	*os.File
	path string
	done bool
}

func createText(path string, force bool) (*textFile, error) {
	if err := schemas.CheckOutput(path, force); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path+".partial", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	return &textFile{File: f, path: path}, nil
}

// finish gives the file its name.
func (f *textFile) finish() error {
	f.done = true
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", f.path, err), os.Remove(f.Name()))
	}
	return os.Rename(f.Name(), f.path)
}

// drop removes a file that was not finished.
func (f *textFile) drop() {
	if !f.done {
		f.Close()
		os.Remove(f.Name())
	}
}
