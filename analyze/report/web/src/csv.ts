// Copying tables and plots as CSV (RFC 4180).

export type Cell = string | number | null | undefined;

/** Rows as CSV text. A text cell that a spreadsheet would take for a formula gets an apostrophe before
 * it: ids and error texts come from servers. */
export function toCSV(rows: Cell[][]): string {
  return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

function cell(value: Cell): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return Number.isFinite(value) ? String(value) : "";
  let text = value;
  if (/^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text))) text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/**
 * A table of the page as rows. data-csv has what stands behind a cell: full precision where its text is
 * rounded, and, with bars between them, the bounds of its interval.
 */
export function tableRows(table: HTMLTableElement): Cell[][] {
  const rows: Cell[][] = [];
  for (const tr of table.rows) {
    const row: Cell[] = [];
    for (const td of tr.cells) {
      const csv = td.dataset["csv"];
      if (csv !== undefined) row.push(...csv.split("|"));
      else row.push((td.textContent ?? "").trim().replace(/\s+/g, " "));
      for (let i = 1; i < td.colSpan; i++) row.push("");
    }
    rows.push(row);
  }
  return rows;
}

/** A button that copies what rows gives. */
export function copyButton(what: string, rows: () => Cell[][]): HTMLButtonElement {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "tool copy";
  button.textContent = "Copy CSV";
  button.setAttribute("aria-label", `Copy CSV: ${what}`);
  let timer = 0;
  button.addEventListener("click", () => {
    void copy(toCSV(rows())).then((ok) => {
      button.textContent = ok ? "Copied" : "Not allowed";
      say(ok ? `Copied as CSV: ${what}` : "The browser did not allow copying");
      clearTimeout(timer);
      timer = setTimeout(() => (button.textContent = "Copy CSV"), 1600);
    });
  });
  return button;
}

async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Pages opened from a file have no clipboard object in some browsers. The old way works there.
  }
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "offscreen";
  document.body.append(area);
  area.select();
  const ok = document.execCommand("copy");
  area.remove();
  return ok;
}

/** Tells screen readers something. */
export function say(text: string): void {
  const live = document.getElementById("live");
  if (live) live.textContent = text;
}
