package tokenizer

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxFile bounds the size of a tokenizer file; the largest known ones are under 50 MB.
const maxFile = 512 << 20

// Load gives the tokenizer of that name, or reads it from a file: a tokenizer.json, or a rank file in
// tiktoken's form. A directory stands for the tokenizer.json in it. After the path of a rank file, "#"
// and a name choose the splitting rules ("my.tiktoken#cl100k_base"). The empty name is [Default].
func Load(nameOrFile string) (*Tokenizer, error) {
	if nameOrFile == "" {
		nameOrFile = Default
	}
	if _, ok := embedded[nameOrFile]; ok {
		return loadEmbedded(nameOrFile)
	}
	path, rulesName := nameOrFile, ""
	if _, err := os.Stat(path); err != nil {
		if i := strings.LastIndexByte(path, '#'); i > 0 {
			path, rulesName = path[:i], path[i+1:]
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(path, `/\.`) {
			return nil, fmt.Errorf("tokenizer %q is neither an encoding (%s) nor a file", path, strings.Join(Names(), ", "))
		}
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	if info.IsDir() {
		path = filepath.Join(path, "tokenizer.json")
		if info, err = os.Stat(path); err != nil {
			return nil, fmt.Errorf("tokenizer: the directory has no tokenizer.json: %w", err)
		}
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("tokenizer %s: %d bytes are too many for a tokenizer file", path, info.Size())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return loadData(path, rulesName, data)
}

// loadData tells the kind of file by its content.
func loadData(name, rulesName string, data []byte) (*Tokenizer, error) {
	head := bytes.TrimLeft(data[:min(len(data), 256)], " \t\r\n\ufeff")
	switch {
	case len(head) == 0:
		return nil, fmt.Errorf("tokenizer %s: the file is empty", name)
	case head[0] == '{':
		if rulesName != "" {
			return nil, fmt.Errorf("tokenizer %s: a tokenizer.json says itself how to split; leave out #%s", name, rulesName)
		}
		return fromHuggingFace(name, data)
	case looksLikeRanks(data):
		return loadRankFile(name, rulesName, data)
	case bytes.Contains(data[:min(len(data), 4096)], []byte("<unk>")):
		return nil, fmt.Errorf("tokenizer %s: a SentencePiece model cannot be done exactly; use a tokenizer.json of byte-level BPE or a model that has one", name)
	}
	return nil, fmt.Errorf("tokenizer %s: neither a tokenizer.json nor a tiktoken rank file", name)
}
