"""Encodes texts (one JSON string per line, on stdin) again and again for some seconds and prints the CPU seconds of
one round, on one thread.

    python bench.py KIND FILE < texts.jsonl

KIND is hf (tokenizers, a tokenizer.json) or tiktoken (o200k_base, whose rank file it is).
"""
import json
import os
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
kind, file = sys.argv[1:]
texts = [json.loads(line) for line in sys.stdin]
if kind == "hf":
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(file)
    encode = lambda text: tokenizer.encode(text, add_special_tokens=False)
else:
    import tiktoken
    from tiktoken.load import load_tiktoken_bpe
    from tiktoken_ext.openai_public import o200k_base  # its expression; the ranks are not downloaded

    import tiktoken_ext.openai_public as public

    public.load_tiktoken_bpe = lambda *_, **__: load_tiktoken_bpe(file)
    encode = tiktoken.Encoding(**o200k_base()).encode_ordinary
rounds, began = 0, time.process_time()
while rounds < 2 or time.process_time() - began < 2:
    for text in texts:
        encode(text)
    rounds += 1
print((time.process_time() - began) / rounds)
