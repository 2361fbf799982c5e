// Builds dist/report.js and dist/report.css, which the Go package embeds. The same input gives the same
// bytes: versions are pinned by package-lock.json, and nothing of the machine goes into the output.
// check.sh repeats this and compares.

import { build } from "esbuild";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "dist");
const read = (name) => readFileSync(join(here, name), "utf8");

const uplot = JSON.parse(read("node_modules/uplot/package.json"));
const licence = `uPlot ${uplot.version} (https://github.com/leeoniya/uPlot)\n\n${read("node_modules/uplot/LICENSE").trim()}\n`;

const result = await build({
  absWorkingDir: here,
  entryPoints: { report: "src/main.ts" },
  bundle: true,
  minify: true,
  charset: "ascii",
  format: "iife",
  target: ["chrome100", "firefox100", "safari15.4"],
  legalComments: "none", // the whole licence text is put on top instead
  write: false,
  outdir: out,
  logLevel: "warning",
});

mkdirSync(out, { recursive: true });
for (const file of result.outputFiles) {
  const name = file.path.endsWith(".css") ? "report.css" : "report.js";
  // A licence must go wherever the code goes: into each report.
  const text = `/*!\n${licence}*/\n${file.text}`;
  if (/<\/(script|style)/i.test(text)) throw new Error(`${name} would end its own element in the page`);
  writeFileSync(join(out, name), text);
}
writeFileSync(join(out, "LICENSE.uplot.txt"), licence);
