// State diagram of a key's life, with the number of keys in each state. Only states that the stack's parameters allow,
// or that keys are in, are shown.

import { drawn, plural } from "./text.js";

// State → centre (x, y), tier that serves its keys. Edges are paths from a state to another. Under the default policy, a
// key on a running node is a guest, without a life of its own.
const DEFAULT = {
  height: 246,
  states: {
    S3: [180, 34, "s3"],
    Lambda: [88, 124, "lambda"],
    RestrictedLambda: [272, 124, "lambda"],
    Guest: [180, 214, "redis"],
  },
  edges: [
    ["S3", "Lambda", "M150 61 L104 94"],
    ["S3", "RestrictedLambda", "M210 61 L256 94"],
    ["S3", "Guest", "M180 61 L180 184"],
    ["Lambda", "Guest", "M104 151 L150 184"],
    ["RestrictedLambda", "Guest", "M256 151 L210 184"],
    ["Lambda", "S3", "M20 124 L8 124 L8 34 L109 34"],
    ["RestrictedLambda", "S3", "M340 118 L346 118 L346 42 L251 42"],
    ["Guest", "S3", "M248 214 L354 214 L354 26 L251 26"],
  ],
};
// The thesis's endpoint scheduler (figure 4.1), and guests.
const THESIS = {
  height: 426,
  states: {
    S3: [180, 34, "s3"],
    Lambda: [88, 124, "lambda"],
    RestrictedLambda: [272, 124, "lambda"],
    RedisBootup: [180, 214, "lambda"],
    RedisRunning: [252, 304, "redis"],
    RedisShutdown: [252, 394, "s3"],
    Guest: [82, 304, "redis"],
  },
  edges: [
    ["S3", "Lambda", "M150 61 L104 94"],
    ["S3", "RestrictedLambda", "M210 61 L256 94"],
    ["S3", "RedisBootup", "M180 61 L180 184"],
    ["Lambda", "RedisBootup", "M104 151 L150 184"],
    ["RestrictedLambda", "RedisBootup", "M256 151 L210 184"],
    ["RedisBootup", "RedisRunning", "M206 241 L232 274"],
    ["RedisRunning", "RedisShutdown", "M252 331 L252 364"],
    ["RedisShutdown", "S3", "M320 394 L352 394 L352 34 L251 34"],
    ["Lambda", "S3", "M20 124 L8 124 L8 26 L109 26"],
    ["RestrictedLambda", "S3", "M340 118 L346 118 L346 42 L251 42"],
    ["Guest", "S3", "M14 304 L4 304 L4 18 L109 18"],
  ],
};
const WIDTH = 136, HEIGHT = 54;

export class Diagram {
  constructor(parent, possible) {
    this.possible = possible;
    this.svg = drawn("svg", { role: "img" });
    parent.append(this.svg);
    this.show({});
  }

  show(counts) {
    const present = Object.keys(counts).filter((state) => counts[state] && state in THESIS.states);
    const states = [...new Set([...this.possible, ...present])];
    if (states.join() !== this.states) this.make(states);
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

  make(states) {
    this.states = states.join();
    this.groups = {};
    const layout = states.every((state) => state in DEFAULT.states) ? DEFAULT : THESIS;
    const tip = drawn("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" });
    tip.append(drawn("path", { d: "M0 0 L8 4 L0 8 z", class: "tip" }));
    this.svg.setAttribute("viewBox", `0 0 360 ${layout.height}`);
    this.svg.replaceChildren(drawn("defs", {}, tip));
    for (const [from, to, path] of layout.edges) {
      if (states.includes(from) && states.includes(to)) this.svg.append(drawn("path", { d: path, class: "edge", "marker-end": "url(#tip)" }));
    }
    for (const [state, [x, y, tier]] of Object.entries(layout.states)) {
      if (!states.includes(state)) continue;
      const group = drawn("g", { class: tier });
      const shown = drawn("text", { x, y: y + 19, "text-anchor": "middle", class: "count" });
      const name = drawn("text", { x, y: y - 8, "text-anchor": "middle" });
      name.textContent = state;
      group.append(drawn("rect", { x: x - WIDTH / 2, y: y - HEIGHT / 2, width: WIDTH, height: HEIGHT, rx: 8 }), name, shown);
      this.groups[state] = [group, shown];
      this.svg.append(group);
    }
  }
}
