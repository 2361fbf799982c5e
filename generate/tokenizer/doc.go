// Package tokenizer counts and encodes text exactly as the tokenizers of language models do.
//
// These sources are understood by [Load]:
//
//   - the encodings of tiktoken by name (cl100k_base, o200k_base, p50k_base, p50k_edit, r50k_base, gpt2,
//     o200k_harmony), which are part of the program and need no network;
//   - a Hugging Face tokenizer.json: byte-level BPE (Llama 3, Qwen, DeepSeek, gpt-oss), BPE with byte fallback
//     (Gemma, Llama 2, Mistral 7B), Unigram (T5, XLM-RoBERTa) and WordPiece (BERT);
//   - a SentencePiece model (tokenizer.model, *.model), BPE or Unigram;
//   - Mistral's tekken.json;
//   - a rank file in tiktoken's form (*.tiktoken, or the tokenizer.model of Llama 3 and Kimi K2), whose
//     splitting pattern is told by its size or named after a "#".
//
// What cannot be done exactly (a normaliser, pre-tokenizer or kind of model that is not implemented, an
// expression that engines read differently) is refused by its name, because a count that is nearly right is
// worse than none.
//
// # How it works
//
// Text passes through three stages. Normalisers come first. Then a splitter cuts the text into pieces, mostly
// by regular expressions; these are compiled to a small matcher of our own (see pattern.go), and an expression
// that is beyond it runs in regexp2, which is some ten times slower and otherwise equal. Each piece becomes
// tokens: by merging pairs of bytes or characters, lowest rank first (short pieces by scanning, long ones with
// a heap, so that time grows as n log n on any input); by the way of the highest score (Unigram); or by the
// longest match (WordPiece).
//
// # How it is checked
//
// Tests hold the embedded encodings against tiktoken-go and the matcher against regexp2.
// reference/run.sh DIRECTORY holds 21 tokenizers against the encoders that they were made for (tokenizers,
// sentencepiece, mistral-common, tiktoken), which it installs into the directory: each of more than 4,000 odd
// texts must give the same tokens. Characters that came with Unicode 16 and later are not among them: Go does
// not know them yet.
//
// Invalid UTF-8 counts as one U+FFFD per bad byte: this is what a JSON encoder sends.
package tokenizer
