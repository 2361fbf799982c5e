"""Encodes texts (one JSON string per line, on stdin) with a reference encoder and writes the tokens (one JSON
array per line) to stdout.

    python encode.py KIND FILE < texts.jsonl > tokens.jsonl

KIND is hf (tokenizers, a tokenizer.json), sp (sentencepiece, a .model), tekken (mistral-common's encoder of a
tekken.json) or kimi (tiktoken, a rank file split by the expression on the first line of stdin).
"""
import json
import sys

kind, file = sys.argv[1:]
lines = iter(sys.stdin)
if kind == "hf":
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(file)
    encode = lambda text: tokenizer.encode(text, add_special_tokens=False).ids
elif kind == "sp":
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_file=file)
    encode = lambda text: processor.encode(text)
elif kind == "tekken":
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    tekken = Tekkenizer.from_file(file)
    encode = lambda text: tekken.encode(text, bos=False, eos=False)
else:
    import tiktoken
    from tiktoken.load import load_tiktoken_bpe

    encoding = tiktoken.Encoding(kind, pat_str=json.loads(next(lines)), mergeable_ranks=load_tiktoken_bpe(file), special_tokens={})
    encode = encoding.encode_ordinary
for line in lines:
    sys.stdout.write(json.dumps(encode(json.loads(line))) + "\n")
