"""Makes the small Parquet files that the reader of foreign chat datasets is tested with.

Run once with pyarrow (26.0.1 was used); the files are kept, so that tests need no Python:

    python make.py
"""
import datetime
import json
import pyarrow as pa
import pyarrow.parquet as pq

UTC = datetime.timezone.utc


def write(name, table, **options):
    pq.write_table(table, name + ".parquet", **options)


chat = [
    [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}],
    [{"role": "user", "content": "ünïcödé 日本語"}, {"role": "assistant", "content": "はい"}, {"role": "user", "content": "more"}],
    [],
    None,
    [{"role": "martian", "content": "x"}],
    [{"role": "user", "content": None}],
    [{"role": "user", "content": "last"}, {"role": "assistant", "content": "one"}],
]
write("messages", pa.table({"messages": pa.array(chat, pa.list_(pa.struct([("content", pa.string()), ("role", pa.string())]))), "score": [1.5] * 7}),
      row_group_size=3, compression="snappy")

write("lmsys", pa.table({
    "conversation_id": ["c1", "c2"], "model": ["vicuna-13b", "koala-13b"],
    "conversation": [[{"content": "q1", "role": "user"}, {"content": "a1", "role": "assistant"}, {"content": "q2", "role": "user"}, {"content": "a2", "role": "assistant"}],
                     [{"content": "q", "role": "user"}, {"content": "a", "role": "assistant"}]],
    "turn": [2, 1], "language": ["English", "German"],
    "openai_moderation": [[{"categories": {"hate": False}, "flagged": False}], []],
}), compression="zstd")

stamp = lambda s: datetime.datetime(2023, 4, 9, 0, 0, 0, tzinfo=UTC) + datetime.timedelta(seconds=s)
write("wildchat", pa.table({
    "conversation_hash": ["h1", "h2"], "model": ["gpt-4", "gpt-4"], "timestamp": [stamp(60), stamp(9)],
    "conversation": pa.array([
        [{"content": "q1", "role": "user", "timestamp": None, "toxic": False, "header": {"user-agent": "x"}},
         {"content": "a1", "role": "assistant", "timestamp": stamp(2), "toxic": False, "header": None},
         {"content": "q2", "role": "user", "timestamp": None, "toxic": False, "header": None},
         {"content": "a2", "role": "assistant", "timestamp": stamp(47.5), "toxic": True, "header": None}],
        [{"content": "q1", "role": "user", "timestamp": stamp(0), "toxic": False, "header": None},
         {"content": "a1", "role": "assistant", "timestamp": stamp(1), "toxic": False, "header": None},
         {"content": "q2", "role": "user", "timestamp": stamp(9), "toxic": False, "header": None}]],
        pa.list_(pa.struct([("content", pa.string()), ("role", pa.string()), ("timestamp", pa.timestamp("us", tz="UTC")), ("toxic", pa.bool_()),
                            ("header", pa.struct([("user-agent", pa.string())]))]))),
    "language": ["English", "English"],
}))

write("ultrachat", pa.table({"id": ["0", "1"], "data": [["q1", "a1", "q2", "a2"], ["q", "a"]]}), use_dictionary=False, data_page_version="2.0")

write("mtbench", pa.table({"question_id": [81, 82], "category": ["writing", "math"], "turns": [["first", "second"], ["only"]]}))

write("pairs", pa.table({"prompt": ["p1", "p2", None], "response": ["r1", None, "r3"], "system_prompt": ["rules", None, None]}))

write("alpaca", pa.table({"instruction": ["Sum up", "Say hi"], "input": ["a long text", ""], "output": ["short", "hi"]}))

write("sharegpt", pa.table({"id": ["s_0"], "conversations": [[{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]]}))

write("json_text", pa.table({"messages": [json.dumps([{"role": "user", "content": "in text"}]), "not json"]}))

part = pa.struct([("type", pa.string()), ("text", pa.string()), ("image_url", pa.struct([("url", pa.string())]))])
call = pa.struct([("id", pa.string()), ("type", pa.string()), ("function", pa.struct([("name", pa.string()), ("arguments", pa.struct([("q", pa.int64())]))]))])
write("parts", pa.table({"messages": pa.array([
    [{"role": "user", "content": [{"type": "text", "text": "see ", "image_url": None}, {"type": "image_url", "text": None, "image_url": {"url": "https://x/y?a=1&b=<2>"}}], "tool_calls": None, "tool_call_id": None},
     {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "find", "arguments": {"q": 3}}}], "tool_call_id": None},
     {"role": "tool", "content": [{"type": "text", "text": "found", "image_url": None}], "tool_calls": [], "tool_call_id": "c1"}]],
    pa.list_(pa.struct([("role", pa.string()), ("content", pa.list_(part)), ("tool_calls", pa.list_(call)), ("tool_call_id", pa.string())]))),
    "tools": ['[{"type":"function"}]']}))

write("large", pa.table({"messages": [[{"role": "user", "content": f"question {i} " + "x" * (i % 700)}, {"role": "assistant", "content": f"answer {i}"}] for i in range(3000)]}),
      row_group_size=1000, data_page_size=2000, compression="snappy")

write("numbers", pa.table({"a": [1], "b": [2.0]}))
