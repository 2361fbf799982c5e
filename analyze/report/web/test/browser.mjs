// What the tests share: Chromium, pages opened from files, and what is watched in each.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const dir = process.env.REPORTS;
if (!dir) throw new Error("REPORTS must name the directory with the reports; check.sh makes them");

/** The path of a report, or of the data that it was made from. */
export const path = (name) => join(dir, name);

/** The JSON beside a report. */
export const data = (name) => JSON.parse(readFileSync(path(name), "utf8"));

export function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    // A browser that is told to keep quiet still looks for updates; none of this concerns the page.
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
}

/**
 * Opens a report and waits until all plots are drawn. check() fails if the page said anything on the
 * console, threw, broke its own policy, or asked for anything but itself.
 */
export async function open(browser, name, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const seen = { console: [], errors: [], requests: [], violations: [] };
  await context.exposeFunction("reportViolation", (text) => seen.violations.push(text));
  await context.addInitScript(() => {
    addEventListener("securitypolicyviolation", (e) => window.reportViolation(`${e.violatedDirective} ${e.blockedURI} ${e.sample}`));
    // The pixels of a canvas, read from a copy: reading the page's own makes it slow, and Chromium say so.
    window.pixels = (selector) => {
      const from = document.querySelector(selector);
      const copy = new OffscreenCanvas(from.width, from.height).getContext("2d", { willReadFrequently: true });
      copy.drawImage(from, 0, 0);
      return copy.getImageData(0, 0, from.width, from.height).data;
    };
    // What is copied is kept here: a headless browser has no clipboard to speak of.
    Object.defineProperty(navigator, "clipboard", { value: { writeText: async (text) => void (window.copied = text) } });
  });
  context.on("request", (r) => seen.requests.push(r.url()));
  const page = await context.newPage();
  page.on("console", (m) => seen.console.push(`${m.type()}: ${m.text()}`));
  page.on("pageerror", (e) => seen.errors.push(String(e.stack)));
  const url = pathToFileURL(path(name)).href;
  await page.goto(url);
  await page.waitForSelector("html[data-drawn]", { timeout: 30_000 });
  const check = () => {
    assert.deepEqual(seen.errors, []);
    assert.deepEqual(seen.console, []);
    assert.deepEqual(seen.violations, []);
    assert.deepEqual(seen.requests, [url], "the page asked for something");
  };
  return { page, context, check, close: () => context.close() };
}

/** Parses CSV as RFC 4180 has it. */
export function parseCSV(text) {
  const rows = [];
  let row = [];
  let field = "";
  let quoted = false;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (quoted) {
      if (c === '"' && text[i + 1] === '"') {
        field += '"';
        i++;
      } else if (c === '"') quoted = false;
      else field += c;
    } else if (c === '"') quoted = true;
    else if (c === ",") {
      row.push(field);
      field = "";
    } else if (c === "\r") continue;
    else if (c === "\n") {
      row.push(field);
      rows.push(row);
      row = [];
      field = "";
    } else field += c;
  }
  return rows;
}

/** What the copy button of a plot or table gives. */
export async function copied(page, selector) {
  await page.evaluate(() => void (window.copied = ""));
  const button = page.locator(`${selector} button.copy`).first();
  await button.scrollIntoViewIfNeeded();
  await button.click();
  await page.waitForFunction(() => window.copied !== "");
  return parseCSV(await page.evaluate(() => window.copied));
}
