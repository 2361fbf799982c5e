// Package tokenizer counts and encodes text exactly as the tokenizers of language models do, for the
// kind that nearly all of today's open models use: byte-level byte-pair encoding (BPE).
//
// Three sources are understood by [Load]:
//
//   - the encodings of tiktoken by name (cl100k_base, o200k_base, p50k_base, p50k_edit, r50k_base, gpt2,
//     o200k_harmony), which are part of the program and need no network;
//   - a Hugging Face tokenizer.json whose model is byte-level BPE;
//   - a rank file in tiktoken's form (*.tiktoken, or Llama 3's tokenizer.model), whose splitting pattern
//     is told by its size or named after a "#".
//
// What cannot be done exactly (SentencePiece, byte fallback, Unigram, WordPiece, normalisers and
// pre-tokenizers that are not implemented) is refused with the reason, because a count that is nearly
// right is worse than none.
//
// # How it works
//
// Text passes through three stages. A normaliser (NFC or nothing) comes first. Then a splitter cuts the
// text into pieces by regular expressions; these are compiled to a small matcher of our own (see
// pattern.go), and an expression that is beyond it runs in regexp2, which is some ten times slower and
// otherwise equal. Each piece becomes tokens by merging byte pairs, lowest rank first. Short pieces are
// merged by scanning, long ones with a heap, so that time grows as n log n on any input.
//
// # How it is checked
//
// Tests hold the embedded encodings against tiktoken-go and the matcher against regexp2.
// reference/run.sh DIRECTORY holds tokenizer.json files of Qwen 3, Llama 3 and 3.1, DeepSeek V3, gpt-4o and
// gpt-oss against the Rust encoder of Hugging Face, which it installs into the directory; every text must
// give the same tokens.
//
// Invalid UTF-8 counts as one U+FFFD per bad byte: this is what a JSON encoder sends.
package tokenizer
