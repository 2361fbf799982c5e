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

// Load gives the tokenizer of that name, or reads it from a file: a tokenizer.json, a tekken.json, a
// SentencePiece model, or a rank file in tiktoken's form. A directory stands for the first of tokenizer.json,
// tekken.json, tokenizer.model and tiktoken.model in it. After the path of a rank file, "#"
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
		dir := path
		for _, name := range []string{"tokenizer.json", "tekken.json", "tokenizer.model", "tiktoken.model"} {
			path = filepath.Join(dir, name)
			if info, err = os.Stat(path); err == nil {
				break
			}
		}
		if err != nil {
			return nil, fmt.Errorf("tokenizer: the directory %s has no tokenizer.json, tekken.json, tokenizer.model or tiktoken.model", dir)
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
			return nil, fmt.Errorf("tokenizer %s: the file says itself how to split; leave out #%s", name, rulesName)
		}
		return fromHuggingFace(name, data)
	case looksLikeRanks(data):
		return loadRankFile(name, rulesName, data)
	case head[0] == '\n' || data[0] == '\n': // the tag of a model's first piece
		return fromSentencePiece(name, data)
	}
	return nil, fmt.Errorf("tokenizer %s: neither a tokenizer.json, a tekken.json, a tiktoken rank file nor a SentencePiece model", name)
}
