// The page of benchmarks that reproduce published measurements: start, progress, and results next to the published ones.

import { asked, clock, count, duration, element, fill, table } from "./text.js";

const EVERY_MS = 1000;

class Benchmarks {
  constructor(parent, status) {
    this.parent = parent;
    this.status = status;
    this.timer = 0;
  }

  // Loads all benchmarks, and polls while one is running.
  async follow() {
    await this.ask("benchmarks/all");
  }

  async ask(path, method = "GET") {
    clearTimeout(this.timer);
    try {
      const { benchmarkToken } = await asked("about"); // a restarted server has another token
      const answer = await fetch(path, { method, headers: { "X-Burstcache-Token": benchmarkToken } });
      if (answer.ok) return this.show(await answer.json());
      this.say(await answer.text());
    } catch (error) {
      this.say(`The dashboard's server does not answer: ${error.message}`);
    }
    this.timer = setTimeout(() => this.follow(), EVERY_MS);
  }

  show(offers) {
    const running = offers.find(({ run }) => run?.phase === "running");
    fill(this.parent, ...offers.map((offer) => this.article(offer, running)));
    if (running) this.say(`${running.title}: running.`);
    else if (this.ran) this.say(`${this.ran.title}: ${offers.find(({ name }) => name === this.ran.name).run.phase}.`);
    this.ran = running;
    clearTimeout(this.timer);
    if (running) this.timer = setTimeout(() => this.follow(), EVERY_MS);
  }

  say(text) {
    if (this.status.textContent !== text) this.status.textContent = text;
  }

  article(offer, running) {
    const { name, title, source, takes, run } = offer;
    const isRunning = running?.name === name;
    const button = isRunning
      ? element("button", { type: "button", "aria-label": `Cancel: ${title}`, onclick: () => this.ask(`benchmarks/${name}`, "DELETE") }, "Cancel")
      : element("button", { type: "button", "aria-label": `Run: ${title}`, disabled: Boolean(running) && "", onclick: () => this.ask(`benchmarks/${name}`, "POST") }, "Run");
    return element("article", { class: "benchmark" },
      element("h3", {}, title),
      element("p", { class: "note" }, `${source}; takes about ${takes} on an idle machine.`),
      element("p", {}, button, " ", ...(isRunning ? progress(title, run) : [])),
      ...(run ? outcome(offer) : []),
    );
  }
}

function progress(title, run) {
  const known = run.steps ? { max: run.steps, value: run.done } : {};
  const said = run.steps ? `${count(run.done)} of ${count(run.steps)}: ${run.what}` : run.what;
  return [element("progress", { "aria-label": title, ...known }), ` ${said}, ${duration(Math.max(0, Date.now() - run.beganMs))}`];
}

function outcome({ name, title, run }) {
  const since = `Started at ${clock(run.beganMs)}`;
  if (run.phase === "cancelled") return [element("p", { class: "note" }, `${since}, cancelled.`)];
  if (run.phase === "failed") {
    return [
      element("p", { class: "bad" }, `${since}, failed with exit code ${run.exitCode}. Its last lines:`),
      element("pre", { tabindex: "0", role: "region", "aria-label": `Last lines of ${title}` }, run.lines.join("\n")),
    ];
  }
  if (run.phase !== "done") return [];
  return [
    table(title, run.table.columns, run.table.rows),
    element("p", { class: "note" }, `${since}. ${run.table.note}`),
    element("img", { src: `benchmarks/${name}/picture?${run.beganMs}`, alt: `${title}: the values of the table above, drawn` }),
  ];
}

new Benchmarks(document.getElementById("benchmarks"), document.getElementById("benchmarking")).follow();
