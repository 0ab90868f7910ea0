// The latest trace of a key. It is loaded only when the page opens or on a click, because X-Ray bills scanned traces.

import { TIER_NAMES, asked, clock, drawn, element, fill, milliseconds, table } from "./text.js";

const NONE_OF_XRAY = "None of the last five minutes, nor of the minutes around the newest request in the key's row. X-Ray has the first request of each second and one in twenty of the others.";

// Shows the latest trace. `isWanted` returns whether the key's page is still open.
export async function showTrace(parent, key, about, isWanted) {
  if (!about.isTraced) {
    const how = about.isLocal ? "burstcache local up --parameter Tracing=Active" : "sam deploy --parameter-overrides Tracing=Active";
    return fill(parent, element("p", {}, "None: this stack is not traced. It needs the parameter Tracing=Active, as in ", element("code", {}, how), "."));
  }
  fill(parent, element("p", {}, "Looking for it …"));
  const again = element("p", {}, element("button", { type: "button", onclick: () => showTrace(parent, key, about, isWanted) }, "Read the newest trace"));
  try {
    const found = await asked(`trace?key=${encodeURIComponent(key)}`);
    if (!isWanted()) return;
    fill(parent, ...(found ? waterfall(found) : [element("p", {}, about.isLocal ? "None yet." : NONE_OF_XRAY)]), again);
  } catch (error) {
    if (isWanted()) fill(parent, element("p", {}, `It cannot be read: ${error.message}`), again);
  }
}

function waterfall(trace) {
  const span = Math.max(...trace.bars.map((bar) => bar.end_ms), 1);
  const rows = trace.bars.map((bar) => {
    const svg = drawn("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" });
    svg.append(drawn("rect", { class: bar.is_failed ? "bar failed" : "bar", x: (100 * bar.start_ms) / span, y: 1, height: 8, width: Math.max(0.4, (100 * (bar.end_ms - bar.start_ms)) / span) }));
    const name = `${"\u2003".repeat(bar.depth)}${bar.name}${bar.is_failed ? " (failed)" : ""}`;
    return [name, milliseconds(bar.start_ms), milliseconds(bar.end_ms - bar.start_ms), svg];
  });
  const columns = [{ name: "Part" }, { name: "Began after", number: true, minor: true }, { name: "Took", number: true }, { name: "When" }];
  const made = table("Trace", columns, rows);
  made.classList.add("waterfall");
  const id = trace.url ? element("a", { href: trace.url, rel: "noreferrer" }, trace.id) : trace.id;
  return [element("p", {}, `${clock(trace.at_ms, true)}, answered by ${TIER_NAMES[trace.tier] ?? "S3"}: `, id), made];
}
