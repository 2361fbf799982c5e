import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, describe, test } from "node:test";
import { build } from "esbuild";
import { copied, data, launch, open, path } from "./browser.mjs";

const reports = ["one", "two", "sweep", "hostile", "big"];

let browser;
before(async () => void (browser = await launch()));
after(() => browser.close());

describe("every report", () => {
  for (const name of reports) {
    for (const colorScheme of ["light", "dark"]) {
      test(`${name} is quiet and drawn in ${colorScheme}`, async () => {
        const { page, check, close } = await open(browser, `${name}.html`, { colorScheme });
        const blank = await page.evaluate(() => {
          const out = [];
          for (const figure of document.querySelectorAll("figure.plot")) {
            const data = window.pixels(`#${figure.id} canvas`);
            const colors = new Set();
            for (let i = 0; i < data.length; i += 4) {
              if (data[i + 3] > 200) colors.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
            }
            if (colors.size < 3) out.push(figure.id);
          }
          return out;
        });
        assert.deepEqual(blank, [], "plots without marks");
        assert.ok((await page.locator("figure.plot").count()) >= 10);
        check();
        await close();
      });
    }

    test(`${name} holds analyze's JSON unchanged`, async () => {
      const { page, close } = await open(browser, `${name}.html`);
      for (const part of ["result", "plots"]) {
        const text = await page.locator(`#parley-${part}`).textContent();
        assert.deepEqual(JSON.parse(text), data(`${name}.${part}.json`));
      }
      await close();
    });
  }
});

/** What a cell of a percentile must give when copied. */
function percentile(p) {
  if (!p) return ["", "", ""];
  if (p.infinite) return ["inf", "", ""];
  if (p.value === null) return ["", "", ""];
  return [p.value, p.low, p.high];
}

/** Compares copied fields with numbers of the JSON, exactly. */
function same(fields, values, what) {
  const want = values.map((v) => (v === null || v === "" ? "" : v === "inf" ? "inf" : Number(v)));
  const got = fields.map((f) => (f === "" || f === "inf" ? f : Number(f)));
  assert.deepEqual(got, want, what);
}

describe("figures", () => {
  for (const name of ["one", "two", "big"]) {
    test(`tables of ${name} equal the JSON`, async () => {
      const { page, check, close } = await open(browser, `${name}.html`);
      const result = data(`${name}.result.json`);

      const waits = (f) => /^(lag_|conversation_)/.test(f.name) || f.name === "send_lag" || f.name === "write_time";
      for (const [id, ofWaits] of [["latency", false], ["waits", true]]) {
        if ((await page.locator(`#${id}`).count()) === 0) continue;
        const [head, ...latency] = await copied(page, `#${id}`);
        let at = 0;
        for (const run of result.runs) {
          if (result.runs.length > 1) assert.equal(latency[at++][0], run.label);
          for (const f of run.total.figures) {
            if (f.n === 0 || waits(f) !== ofWaits) continue;
            const cells = (row) => Object.fromEntries(head.map((h, i) => [h, row[i]]));
            const row = cells(latency[at++]);
            assert.equal(row.ms, f.unit === "ms" ? f.title : `${f.title} (${f.unit})`);
            const is = (column, value, what) => {
              if (head.includes(column)) same([row[column]], [value], `${f.name} ${what}`);
              else assert.equal(value, null, `${f.name} has no column ${column}`);
            };
            same([row.n, row.mean, row.max], [f.n, f.mean, f.max], f.name);
            is("mean low", f.mean_low, "mean");
            for (const p of f.percentiles) {
              same([row[`p${p.p}`]], [p.value], f.name);
              is(`p${p.p} low`, p.low, `p${p.p}`);
              is(`p${p.p} high`, p.high, `p${p.p}`);
            }
            if (f.failure_aware?.length) {
              const failed = cells(latency[at++]);
              for (const p of f.failure_aware) same([failed[`p${p.p}`]], [p.infinite ? "inf" : p.value], failed.ms);
            }
          }
        }
        assert.equal(at, latency.length);
      }

      // The cards have a column a run (and phase), and a row a figure.
      const card = async (id) => new Map((await copied(page, id)).map((row) => [row[0], row.slice(1)]));
      const figures = await card("#rates");
      const turns = await card("#turns");
      const single = result.runs.length === 1;
      for (const run of result.runs) {
        const t = run.total.throughput;
        for (const [name, value] of [["turns/s", t.requests_per_s], ["output tokens/s", t.completion_tokens_per_s], ["prompt tokens/s", t.prompt_tokens_per_s],
          ["all tokens/s", t.total_tokens_per_s], ["in flight, mean", t.mean_in_flight], ["in flight, peak", t.peak_in_flight]]) {
          const column = single ? 0 : figures.get("").indexOf(run.label);
          if (value !== null) same([figures.get(name)[column]], [value], name);
        }
      }
      const c = result.runs[0].total.counts;
      if (single) {
        const at = -1; // the window is behind the phases
        same([turns.get("planned").at(at), turns.get("error rate (failed / sent)").at(at)], [c.planned, c.error_rate], "turns");
        for (const [status, n] of Object.entries(c.by_status)) if (n > 0) same([turns.get(status).at(at)], [n], status);
      }
      check();
      await close();
    });

    test(`plots of ${name} equal the JSON`, async () => {
      const { page, check, close } = await open(browser, `${name}.html`);
      const plots = data(`${name}.plots.json`);
      const single = plots.runs.length === 1;
      for (const figure of ["ttft", "e2e", "tpot"]) {
        const rows = await copied(page, `#plot-cdf-${figure}`);
        for (const [r, run] of plots.runs.entries()) {
          const curve = run.cdfs.find((c) => c.figure === figure);
          const got = rows.slice(1).filter((row) => row[r + 1] !== "");
          assert.deepEqual(got.map((row) => Number(row[0])), [...curve.value].sort((a, b) => a - b));
          assert.deepEqual(got.map((row) => Number(row[r + 1])), curve.share);
        }
      }
      const over = await copied(page, "#plot-time-ttft");
      const points = plots.runs[0].over_time.find((p) => p.figure === "ttft");
      const cloud = over.slice(1).filter((row) => row[1] !== "").map((row) => [Number(row[0]), Number(row[1])]);
      const pairs = points.t.map((t, i) => [t, points.v[i]]);
      const order = (a, b) => a[0] - b[0] || a[1] - b[1];
      assert.deepEqual(cloud.sort(order), pairs.sort(order));
      if (single) {
        const lanes = await copied(page, "#plot-lanes");
        const spans = plots.runs[0].lanes.flatMap((l) => l.turns.filter((t) => t.sent_s !== null && t.end_s !== null));
        assert.equal(lanes.length - 1, spans.length);
        const times = lanes.slice(1).map((row) => Number(row[4])).sort((a, b) => a - b);
        assert.deepEqual(times, spans.map((t) => t.sent_s).sort((a, b) => a - b));
        const cache = await copied(page, "#plot-cache");
        assert.deepEqual(cache.slice(1).map((row) => Number(row[1])), plots.runs[0].cache_by_turn.map((t) => t.reuse));
      }
      check();
      await close();
    });
  }

  test("no two conversations share a lane at one time", async () => {
    const { page, close } = await open(browser, "one.html");
    const rows = (await copied(page, "#plot-lanes")).slice(1);
    const spans = new Map();
    for (const [conversation, , , lane, sent, , end] of rows) {
      const s = spans.get(conversation) ?? { lane, from: Infinity, to: -Infinity };
      assert.equal(s.lane, lane, "a conversation stays on its lane");
      spans.set(conversation, { lane, from: Math.min(s.from, Number(sent)), to: Math.max(s.to, Number(end)) });
    }
    const list = [...spans.values()];
    for (const [i, a] of list.entries()) {
      for (const b of list.slice(i + 1)) assert.ok(a.lane !== b.lane || a.to <= b.from || b.to <= a.from);
    }
    await close();
  });
});

test("plots print numbers as tables do", async () => {
  const { outputFiles } = await build({ entryPoints: ["src/format.ts"], bundle: true, format: "esm", write: false });
  const { number, withUnit } = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].text).toString("base64")}`);
  for (const { Value, Number: want, Share } of data("numbers.json")) {
    assert.equal(number(Value), want);
    assert.equal(withUnit(Value, "share"), Share);
  }
});

test("a report against the simulated server says so in its heading", async () => {
  const { page, close } = await open(browser, "sweep.html");
  const before = await page.locator("main > :not(h1)").first();
  assert.match(await before.textContent(), /simulated server/);
  await close();
});

test("the verdict is on top, with its reasons and advice", async () => {
  const { page, close } = await open(browser, "one.html");
  const reason = data("one.result.json").runs[0].verdict.reasons[0];
  const verdict = page.locator(".verdict").first();
  assert.ok((await verdict.boundingBox()).y < 300);
  const text = await verdict.textContent();
  for (const part of ["SUSPECT", reason.text, reason.advice]) assert.ok(text.includes(part), part);
  await close();
});

test("the first screen has the answer, the tiles and two plots with percentiles", async () => {
  for (const width of [800, 1400]) {
    const { page, close } = await open(browser, "one.html", { viewport: { width, height: 1000 } });
    for (const part of [".verdict", ".tile", "#plot-load", "#plot-spread"]) {
      const box = await page.locator(part).first().boundingBox();
      assert.ok(box && box.y < (width < 900 ? 1200 : 1000), `${part} at ${width} begins at ${box?.y}`);
    }
    const marked = await page.locator("#plot-spread .canvas").getAttribute("aria-label");
    const p50 = data("one.result.json").runs[0].total.figures.find((f) => f.name === "ttft").percentiles.find((p) => p.p === 50);
    assert.match(marked, /Marked: .*p50 /);
    const tile = await page.locator(".tile").first().textContent();
    const shown = (await page.locator(".tile .big").first().textContent()).split(" ")[0];
    assert.ok(Math.abs(Number(shown.replaceAll(",", "")) - p50.value) <= 0.006 * p50.value, `${tile} for ${p50.value}`);
    assert.ok(marked.includes(`p50 ${shown} ms`), `tile and plot say the same: ${shown} in ${marked}`);
    await close();
  }
});

test("a comparison's tiles tell the change", async () => {
  const { page, close } = await open(browser, "two.html");
  const tiles = await page.locator(".tile").allTextContents();
  assert.ok(tiles.some((t) => t.includes("TTFT p50") && t.includes("+11.9 %") && t.includes("was 61.2")), tiles.join("; "));
  assert.match(await page.locator(".verdict").first().textContent(), /FAILED/);
  await close();
});

test("hostile texts stay texts", async () => {
  const { page, check, close } = await open(browser, "hostile.html");
  await page.mouse.move(600, 500);
  const found = await page.evaluate(() => ({
    owned: window.owned,
    scripts: document.scripts.length,
    strange: document.querySelectorAll("img, svg, iframe, object, embed, link, base, form").length,
    handlers: [...document.querySelectorAll("*")].flatMap((e) => [...e.attributes]).filter((a) => /^on/i.test(a.name)).length,
    links: [...document.querySelectorAll("a")].filter((a) => !a.getAttribute("href").startsWith("#")).length,
    text: document.querySelector("main").textContent,
    title: document.title,
  }));
  assert.equal(found.owned, undefined);
  assert.equal(found.scripts, 3);
  assert.equal(found.strange, 0);
  assert.equal(found.handlers, 0);
  assert.equal(found.links, 0);
  const attack = '</script><img src=x onerror="window.owned=1">';
  assert.ok(found.text.includes(attack), "the text is shown as it is");
  const failures = await copied(page, "#failures");
  assert.ok(failures.some((row) => row[0].includes("=HYPERLINK")), "a formula is made text for spreadsheets");
  // Hovering reads hostile names out, too.
  for (const canvas of await page.locator("figure.plot .canvas").all()) {
    await canvas.scrollIntoViewIfNeeded();
    const box = await canvas.boundingBox();
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  }
  assert.equal(await page.evaluate(() => window.owned), undefined);
  check();
  await close();
});

test("the policy holds: a script that gets in does not run, and nothing can be fetched", async () => {
  const { page, close } = await open(browser, "one.html");
  const outcome = await page.evaluate(async () => {
    const inline = document.createElement("script");
    let set = "allowed";
    try {
      inline.textContent = "window.owned = 1";
      document.body.append(inline);
    } catch {
      set = "refused";
    }
    let html = "allowed";
    try {
      document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.owned = 1'>");
    } catch {
      html = "refused";
    }
    const fetched = await fetch("http://127.0.0.1:9/").then(() => "allowed", () => "refused");
    return { set, html, fetched, owned: window.owned };
  });
  assert.deepEqual({ html: outcome.html, fetched: outcome.fetched, owned: outcome.owned }, { html: "refused", fetched: "refused", owned: undefined });
  await close();
});

const zooms = (page) => page.evaluate(() => [...document.querySelectorAll("figure.plot[data-zoom]")].map((f) => [f.id, f.dataset.zoom]));

async function drag(page, selector, from, to) {
  const over = page.locator(`${selector} .u-over`);
  await over.scrollIntoViewIfNeeded();
  const box = await over.boundingBox();
  await page.mouse.move(box.x + box.width * from, box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * ((from + to) / 2), box.y + box.height / 2, { steps: 3 });
  await page.mouse.move(box.x + box.width * to, box.y + box.height / 2, { steps: 3 });
  await page.mouse.up();
}

describe("interaction", () => {
  test("dragging zooms all plots of the time axis, and only those; reset shows everything", async () => {
    const { page, check, close } = await open(browser, "one.html");
    await drag(page, "#plot-time-ttft", 0.25, 0.5);
    const zoomed = await zooms(page);
    const ids = zoomed.map(([id]) => id);
    for (const id of ["plot-time-ttft", "plot-in-flight", "plot-lanes", "plot-telemetry-0"]) assert.ok(ids.includes(id), id);
    assert.ok(!ids.some((id) => id.startsWith("plot-cdf")));
    const end = Math.max(...data("one.plots.json").runs[0].lanes.flatMap((l) => l.turns.map((t) => t.end_s)));
    for (const [id, zoom] of zoomed) {
      const [min, max] = zoom.split(" ").map(Number);
      assert.ok(Math.abs(min - end * 0.25) < end * 0.02 && Math.abs(max - end * 0.5) < end * 0.02, `${id} shows ${zoom} of ${end}`);
    }
    await page.locator("#plot-in-flight button.reset").click();
    assert.deepEqual(await zooms(page), []);
    await drag(page, "#plot-lanes", 0.3, 0.6);
    assert.ok((await zooms(page)).length > 5);
    await page.locator("#plot-requests .u-over").dblclick();
    assert.deepEqual(await zooms(page), []);
    check();
    await close();
  });

  test("a distribution zooms by itself, and keeps its zoom when its scale changes", async () => {
    const { page, check, close } = await open(browser, "one.html");
    await drag(page, "#plot-cdf-ttft", 0.2, 0.7);
    const [[id, zoom]] = await zooms(page);
    assert.equal(id, "plot-cdf-ttft");
    const button = page.locator("#plot-cdf-ttft button.log-x");
    assert.equal(await button.getAttribute("aria-pressed"), "true");
    await button.click();
    assert.equal(await button.getAttribute("aria-pressed"), "false");
    assert.deepEqual(await zooms(page), [[id, zoom]]);
    check();
    await close();
  });

  test("hovering reads out values of the data, in all plots of the time axis", async () => {
    const { page, check, close } = await open(browser, "one.html");
    const over = page.locator("#plot-output-tokens .u-over");
    await over.scrollIntoViewIfNeeded();
    const box = await over.boundingBox();
    await page.mouse.move(box.x + box.width * 0.4, box.y + 20);
    const read = (id) => page.locator(`#plot-${id} .entry .value`).first().textContent();
    const shown = await read("output-tokens");
    assert.match(shown, /tokens\/s$/);
    const s = data("one.plots.json").runs[0].per_second;
    const stamp = await page.locator("#plot-output-tokens .stamp").textContent();
    const at = Number(/at ([\d.,]+) s/.exec(stamp)[1].replaceAll(",", ""));
    const value = s.completion_tokens_per_s[s.t.indexOf(at)];
    assert.ok(Math.abs(Number(shown.split(" ")[0].replaceAll(",", "")) - value) <= 0.5, `${shown} for ${value} at ${at}`);
    assert.notEqual(await read("in-flight"), "");
    assert.notEqual(await read("telemetry-0"), "");
    await page.mouse.move(2, 2);
    assert.equal(await read("output-tokens"), "");
    check();
    await close();
  });

  test("pointing at a bar of the swim-lane tells the turn", async () => {
    const { page, close } = await open(browser, "one.html");
    const over = page.locator("#plot-lanes .u-over");
    const rows = (await copied(page, "#plot-lanes")).slice(1);
    await over.scrollIntoViewIfNeeded();
    const box = await over.boundingBox();
    const [conversation, turn, , lane, sent, , end] = rows.find((r) => r[2] === "ok" && Number(r[4]) > 30);
    const lanes = 1 + Math.max(...rows.map((r) => Number(r[3])));
    const total = Math.max(...data("one.plots.json").runs[0].lanes.flatMap((l) => l.turns.map((t) => t.end_s)));
    const range = Math.ceil(total);
    await page.mouse.move(
      box.x + (box.width * (Number(sent) + Number(end))) / 2 / range,
      box.y + box.height * (1 - (Number(lane) + 0.5) / lanes),
    );
    const text = await page.locator("#plot-lanes .stamp").textContent();
    assert.ok(text.startsWith(`${conversation}, turn ${turn}: TTFT `), text);
    // A click shows the conversation alone, in the plots above too; a second one shows all again.
    const sum = (id) => page.evaluate((id) => window.pixels(`#plot-${id} canvas`).reduce((a, v) => (a * 31 + v) | 0, 0), id);
    const both = async () => [await sum("lanes"), await sum("time-ttft")];
    const before = await both();
    // A busy machine takes its time to draw.
    const becomes = async (what, ok) => {
      for (let i = 0; !ok(await both()); i++) {
        assert.ok(i < 40, what);
        await page.waitForTimeout(100);
      }
    };
    await page.mouse.down();
    await page.mouse.up();
    await becomes("a click did not choose a conversation in both plots", (now) => now.every((v, i) => v !== before[i]));
    await page.waitForTimeout(600); // two clicks, and not a double one
    await page.mouse.down();
    await page.mouse.up();
    await becomes("a second click did not show all again", (now) => now.every((v, i) => v === before[i]));
    await close();
  });

  test("legend entries hide and show their series", async () => {
    const { page, close } = await open(browser, "one.html");
    const colors = () =>
      page.evaluate(() => {
        const data = window.pixels("#plot-in-flight canvas");
        let n = 0;
        for (let i = 0; i < data.length; i += 4) if (data[i] === 0xc2 && data[i + 1] === 0x54 && data[i + 2] === 0x0a) n++;
        return n;
      });
    const entry = page.locator("#plot-in-flight button.entry", { hasText: "peak" });
    assert.ok((await colors()) > 100);
    await entry.click();
    assert.equal(await entry.getAttribute("aria-pressed"), "false");
    await page.waitForTimeout(50);
    assert.equal(await colors(), 0);
    await entry.click();
    await page.waitForTimeout(50);
    assert.ok((await colors()) > 100);
    await close();
  });

  test("the keyboard reads, zooms and resets", async () => {
    const { page, check, close } = await open(browser, "one.html");
    await page.locator("#plot-time-ttft .canvas").focus();
    for (let i = 0; i < 3; i++) await page.keyboard.press("ArrowRight");
    assert.match(await page.locator("#live").textContent(), /^at [\d.,]+ s/);
    await page.keyboard.press("+");
    assert.ok((await zooms(page)).some(([id]) => id === "plot-lanes"));
    await page.keyboard.press("Escape");
    assert.deepEqual(await zooms(page), []);
    check();
    await close();
  });
});

describe("appearance", () => {
  test("the toggle switches colours, of plots too", async () => {
    const { page, check, close } = await open(browser, "one.html", { colorScheme: "light" });
    const look = () =>
      page.evaluate(() => {
        const data = window.pixels("#plot-cdf-ttft canvas");
        let sum = 0;
        for (const v of data) sum = (sum * 31 + v) | 0;
        return { page: getComputedStyle(document.body).backgroundColor, sum };
      });
    const light = await look();
    await page.locator("#theme").click();
    await page.waitForTimeout(100);
    const dark = await look();
    assert.notEqual(dark.page, light.page);
    assert.notEqual(dark.sum, light.sum);
    await page.locator("#theme").click();
    await page.waitForTimeout(100);
    assert.deepEqual(await look(), light);
    check();
    await close();
  });

  test("colours have the contrast that WCAG asks for", async () => {
    for (const colorScheme of ["light", "dark"]) {
      const { page, close } = await open(browser, "one.html", { colorScheme });
      const css = await page.evaluate(() => {
        const style = getComputedStyle(document.documentElement);
        return Object.fromEntries([...Array(7).keys()].map((i) => `s${i}`).concat("ink", "muted", "accent", "ok", "warn", "bad", "page", "card", "ok-bg", "warn-bg", "bad-bg")
          .map((n) => [n, style.getPropertyValue(`--${n}`).trim()]));
      });
      const luminance = (hex) => {
        const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const contrast = (a, b) => {
        const [x, y] = [luminance(css[a]), luminance(css[b])].sort((p, q) => q - p);
        return (x + 0.05) / (y + 0.05);
      };
      for (const ground of ["card", "page"]) for (const n of ["ink", "muted", "accent"]) assert.ok(contrast(n, ground) >= 4.5, `${colorScheme}: ${n} on ${ground} ${contrast(n, ground)}`);
      for (const n of ["ok", "warn", "bad"]) assert.ok(contrast(n, `${n}-bg`) >= 4.5 && contrast(n, "card") >= 4.5, `${colorScheme}: ${n}`);
      for (let i = 0; i < 7; i++) assert.ok(contrast(`s${i}`, "card") >= 3, `${colorScheme}: s${i} ${contrast(`s${i}`, "card")}`);
      await close();
    }
  });

  test("axe finds nothing to complain about", async () => {
    const axe = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
    for (const [name, colorScheme] of [["one", "light"], ["two", "dark"], ["sweep", "light"]]) {
      const { page, close } = await open(browser, `${name}.html`, { colorScheme, bypassCSP: true });
      await page.addScriptTag({ path: axe });
      const violations = await page.evaluate(async () => {
        const found = await window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] });
        return found.violations.map((v) => `${v.id}: ${v.help} (${v.nodes.length}, such as ${v.nodes[0].html.slice(0, 200)})`);
      });
      assert.deepEqual(violations, [], name);
      await close();
    }
  });

  test("a narrow window never scrolls sideways", async () => {
    for (const name of ["one", "two", "sweep", "hostile"]) {
      for (const width of [360, 400, 800, 1400]) {
        const { page, close } = await open(browser, `${name}.html`, { viewport: { width, height: 800 } });
        const size = await page.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(size <= width, `${name} at ${width} is ${size} wide`);
        await close();
      }
    }
  });

  test("paper is white, everything on it fits, and the page comes back as it was", async () => {
    const { page, check, close } = await open(browser, "sweep.html", { colorScheme: "dark" });
    const pdf = await page.pdf({ preferCSSPageSize: true, printBackground: true });
    assert.ok(pdf.length > 50_000);
    await page.setViewportSize({ width: 700, height: 1000 }); // about what A4 leaves
    await page.emulateMedia({ media: "print" });
    await page.waitForFunction(() => document.documentElement.classList.contains("printing"));
    await page.waitForTimeout(100);
    const paper = await page.evaluate(() => ({
      ground: getComputedStyle(document.body).backgroundColor,
      wide: [...document.querySelectorAll("canvas, .table")].filter((c) => c.getBoundingClientRect().right > document.documentElement.clientWidth + 1).length,
      buttons: [...document.querySelectorAll(".tools, .copy, .bar")].filter((b) => b.getBoundingClientRect().height > 0).length,
      folded: document.querySelectorAll("details:not([open])").length,
    }));
    assert.deepEqual(paper, { ground: "rgb(255, 255, 255)", wide: 0, buttons: 0, folded: 0 });
    await page.emulateMedia({ media: "screen" });
    await page.waitForFunction(() => !document.documentElement.classList.contains("printing"));
    assert.notEqual(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(255, 255, 255)");
    check();
    await close();
  });

  test("without script, verdict, tables and configuration are there", async () => {
    const { page, close } = await (async () => {
      const context = await browser.newContext({ javaScriptEnabled: false });
      const page = await context.newPage();
      await page.goto(`file://${path("one.html")}`);
      return { page, close: () => context.close() };
    })();
    assert.ok(await page.locator(".verdict").isVisible());
    assert.ok(await page.locator("#latency table").isVisible());
    assert.ok(await page.locator("#configuration table").first().isVisible());
    assert.ok(!(await page.locator("#theme").isVisible()));
    await close();
  });
});

test("a run of 100,000 rows is under 10 MB and interactive within 2 s", async () => {
  const result = data("big.result.json");
  assert.ok(result.runs[0].total.counts.planned >= 90_000, `${result.runs[0].total.counts.planned} rows in the window`);
  const size = statSync(path("big.html")).size;
  assert.ok(size < 10e6, `${size} bytes`);
  const times = [];
  // The best of a few: the machine that runs this may do other things as well.
  for (let i = 0; i < 6 && !(Math.min(...times) < 2000); i++) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    const page = await context.newPage();
    await page.goto(`file://${path("big.html")}`, { waitUntil: "commit" });
    await page.waitForSelector("html[data-ready]");
    // Interactive: the page has taken a click and shown what it does.
    times.push(
      await page.evaluate(async () => {
        document.querySelector("#theme").click();
        await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
        return performance.now();
      }),
    );
    await context.close();
  }
  const best = Math.min(...times);
  console.log(`100,000 rows: ${(size / 1e6).toFixed(2)} MB, interactive after ${times.map((t) => Math.round(t)).join(", ")} ms`);
  assert.ok(best < 2000, `interactive after ${best} ms`);
});
