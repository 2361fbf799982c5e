package importer

import (
	"parley/generate/prose"
	"parley/generate/tokenizer"
)

// blockText makes the text of traces that record only lengths and hashes.
type blockText struct {
	prose *prose.Prose
	tok   *tokenizer.Tokenizer
}
