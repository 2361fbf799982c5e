// Encodes texts (one JSON string per line, on stdin) with the reference encoder and writes the tokens
// (one JSON array per line) to stdout.
//
//     node encode.cjs NODE_MODULES TOKENIZER_JSON < texts.jsonl > tokens.jsonl
const path = require("path");
const readline = require("readline");
const [modules, file] = process.argv.slice(2);
const { Tokenizer } = require(path.join(path.resolve(modules), "tokenizers"));

(async () => {
  const tokenizer = Tokenizer.fromFile(file);
  for await (const line of readline.createInterface({ input: process.stdin, crlfDelay: Infinity })) {
    const encoding = await tokenizer.encode(JSON.parse(line), null, { addSpecialTokens: false });
    process.stdout.write(JSON.stringify(encoding.getIds()) + "\n");
  }
})().catch((err) => {
  console.error(err);
  process.exit(1);
});
