"""Writes the kinds of tokenizer.json that no package ships, around vocabularies that packages do ship:

    python make.py DIRECTORY USE_MODEL BERT_VOCAB

unigram.json and unigram-fallback.json are the multilingual Unigram model of Google's Universal Sentence Encoder
with the stages that T5, XLM-RoBERTa and Gemma-like files have; wordpiece.json and wordpiece-cased.json are BERT's.
"""
import json
import pathlib
import sys

from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

out, use, bert = map(pathlib.Path, sys.argv[1:])
spm = sentencepiece_model_pb2.ModelProto()
spm.ParseFromString(use.read_bytes())
pieces = [(p.piece, p.score) for p in spm.pieces]
unknown = next(i for i, p in enumerate(spm.pieces) if p.type == 2)
charsmap = spm.normalizer_spec.precompiled_charsmap

t = Tokenizer(models.Unigram(pieces, unk_id=unknown, byte_fallback=False))
t.normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap), normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), "\u2581")])
t.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="always", split=True)
t.add_special_tokens([AddedToken("<mask>", lstrip=True), "</s>"])
t.save(str(out / "unigram.json"))

fallback = pieces + [(f"<0x{b:02X}>", 0.0) for b in range(256)]
t = Tokenizer(models.Unigram(fallback, unk_id=unknown, byte_fallback=True))
t.normalizer = normalizers.NFKC()
t.pre_tokenizer = pre_tokenizers.Sequence([
    pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="first", split=False), pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.Split(Regex(r"\n+"), "contiguous"), pre_tokenizers.Punctuation("merged_with_next")])
t.add_tokens([AddedToken("word", single_word=True), AddedToken("Naïve  x", normalized=True)])
t.save(str(out / "unigram-fallback.json"))

# The package marks the beginnings of words, as SentencePiece does; BERT's own file marks what continues them.
vocab = {}
for i, token in enumerate(json.loads(bert.read_text())):
    special = token.startswith("[") and token.endswith("]") or len(token) == 0
    vocab.setdefault(token if special else token[1:] if len(token) > 1 and token[0] == "\u2581" else "##" + token, i)
for name, lower in (("wordpiece", True), ("wordpiece-cased", False)):
    t = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100))
    t.normalizer = normalizers.BertNormalizer(lowercase=lower, strip_accents=None, clean_text=True, handle_chinese_chars=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer() if lower else pre_tokenizers.Whitespace()
    t.add_special_tokens(["[CLS]", "[SEP]", AddedToken("[MASK]", lstrip=True)])
    t.save(str(out / f"{name}.json"))
