// State diagram of the thesis's endpoint scheduler (figure 4.1), with the number of keys in each state.

import { drawn, plural } from "./text.js";

// State → centre (x, y), tier that serves its keys. Guests are in Redis without a life of their own.
const STATES = {
  S3: [180, 34, "s3"],
  Lambda: [88, 124, "lambda"],
  RestrictedLambda: [272, 124, "lambda"],
  RedisBootup: [180, 214, "lambda"],
  RedisRunning: [252, 304, "redis"],
  RedisShutdown: [252, 394, "s3"],
  Guest: [82, 304, "redis"],
};
const WIDTH = 136, HEIGHT = 54;
const EDGES = [
  "M150 61 L104 94",
  "M210 61 L256 94",
  "M180 61 L180 184",
  "M104 151 L150 184",
  "M256 151 L210 184",
  "M206 241 L232 274",
  "M252 331 L252 364",
  "M320 394 L352 394 L352 34 L251 34",
  "M20 124 L8 124 L8 26 L109 26",
  "M340 118 L346 118 L346 42 L251 42",
];
const BOTH_WAYS = "M14 304 L4 304 L4 18 L109 18"; // between S3 and Guest, when a node starts or stops

export class Diagram {
  constructor(parent) {
    this.counts = {};
    this.groups = {};
    this.svg = drawn("svg", { viewBox: "0 0 360 426", role: "img" });
    const tip = drawn("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" });
    tip.append(drawn("path", { d: "M0 0 L8 4 L0 8 z", class: "tip" }));
    this.svg.append(drawn("defs", {}, tip));
    for (const path of EDGES) this.svg.append(drawn("path", { d: path, class: "edge", "marker-end": "url(#tip)" }));
    this.svg.append(drawn("path", { d: BOTH_WAYS, class: "edge thin", "marker-start": "url(#tip)", "marker-end": "url(#tip)" }));
    for (const [state, [x, y, tier]] of Object.entries(STATES)) {
      const group = drawn("g", { class: tier });
      const shown = drawn("text", { x, y: y + 19, "text-anchor": "middle", class: "count" });
      const name = drawn("text", { x, y: y - 8, "text-anchor": "middle" });
      name.textContent = state;
      group.append(drawn("rect", { x: x - WIDTH / 2, y: y - HEIGHT / 2, width: WIDTH, height: HEIGHT, rx: 8 }), name, shown);
      this.groups[state] = [group, shown];
      this.svg.append(group);
    }
    parent.append(this.svg);
    this.show({});
  }

  show(counts) {
    const said = [];
    for (const [state, [group, shown]] of Object.entries(this.groups)) {
      const number = counts[state] ?? 0;
      const text = number.toLocaleString("en-GB");
      if (shown.textContent !== text) {
        shown.textContent = text;
        group.classList.toggle("on", number > 0);
      }
      said.push(`${state}: ${plural(number, "key")}`);
    }
    this.svg.setAttribute("aria-label", `States of keys. ${said.join(", ")}`);
  }
}
