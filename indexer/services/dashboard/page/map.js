// The map of the chain: what part is shown, and what is said of it.

import { count, element, show } from "./format.js";
import { listen } from "./mapinput.js";
import { draw } from "./mappaint.js";

const NAMES = {
  proven: "proven",
  stored: "stored",
  blocks_only: "blocks, receipts queued",
  in_work: "in work",
  queued: "queued",
  failed: "failed",
  missing: "missing, not queued",
  unplanned: "not planned",
};
const CELL_PX = 4;

export class ChainMap {
  constructor(get) {
    this.get = get;
    this.place = document.getElementById("map");
    this.canvas = this.place.querySelector("canvas");
    this.overview = document.getElementById("overview");
    this.cursorMark = this.place.querySelector(".cursor");
    this.selection = this.place.querySelector(".selection");
    this.said = document.getElementById("map-said");
    this.wanted = null;
    this.cursor = null;
    this.found = null;
    this.all = null;
    listen(this);
    new ResizeObserver(() => this.paint()).observe(this.place);
  }

  async refresh() {
    const cells = Math.max(40, Math.min(600, Math.floor(this.place.clientWidth / CELL_PX)));
    const part = this.wanted ? `&from=${this.wanted.from}&to=${this.wanted.to}` : "";
    this.found = await this.get(`api/map?cells=${cells}${part}`);
    this.all = this.wanted ? await this.get(`api/map?cells=${cells}`) : null;
    this.paint();
    this.#describe();
  }

  // How many heights of the whole chain are missing, and nobody is to do them.
  missing() {
    return (this.all ?? this.found)?.totals.missing ?? 0;
  }

  paint() {
    const found = this.found;
    if (!found) return;
    document.getElementById("map-empty").hidden = Boolean(found.whole);
    draw(this.canvas, found);
    this.overview.hidden = !this.all;
    if (this.all) {
      draw(this.overview.querySelector("canvas"), this.all);
      const { whole, view } = found;
      const size = whole.to - whole.from + 1;
      const mark = this.overview.querySelector(".window");
      mark.style.left = `${(100 * (view.from - whole.from)) / size}%`;
      mark.style.width = `max(4px, ${(100 * (view.to - view.from + 1)) / size}%)`;
    }
    this.#placeCursor();
  }

  #describe() {
    const { view, totals, runs, runs_total: total } = this.found;
    const middle = view && view.to > view.from + 1 ? Math.floor((view.from + view.to) / 2) : null;
    document.getElementById("axis-from").textContent = view ? count(view.from) : "";
    document.getElementById("axis-middle").textContent = middle ? count(middle) : "";
    document.getElementById("axis-to").textContent = view ? count(view.to) : "";
    const shown = Object.keys(NAMES).filter((state) => totals[state] || state === "proven" || state === "stored");
    show(document.getElementById("legend"), ...shown.map((state) =>
      element("li", { "data-state": state }, element("span", { className: `key ${state}` }), `${NAMES[state]} `, element("span", { className: "quiet", text: count(totals[state] || 0) }))));
    document.getElementById("runs-count").textContent = count(total || 0);
    show(document.getElementById("runs"), ...(runs || []).map((run) =>
      element("tr", {}, element("td", { text: NAMES[run.state] }), element("td", { text: count(run.from) }), element("td", { text: count(run.to) }), element("td", { className: "n", text: count(run.to - run.from + 1) }))));
    document.getElementById("zoom-in").disabled = !view;
    for (const id of ["zoom-out", "zoom-all", "move-left", "move-right"]) document.getElementById(id).disabled = !this.wanted;
  }

  // Where a cell lies, in heights.
  range(cell) {
    const { view, cell_size: size } = this.found;
    const from = view.from + cell * size;
    return { from, to: Math.min(view.to, from + size - 1) };
  }

  #say(cell) {
    const { from, to } = this.range(cell);
    const states = this.found.cells[cell]
      .map((n, index) => [n, NAMES[this.found.states[index]]])
      .filter(([n]) => n);
    const size = to - from + 1;
    const what = states.length === 1 ? states[0][1] : states.map(([n, name]) => `${count(n)} ${name}`).join(", ");
    this.said.textContent = size === 1 ? `Block ${count(from)}: ${what}` : `Blocks ${count(from)} to ${count(to)}: ${what}`;
  }

  move(cell) {
    if (!this.found?.cells.length) return;
    this.cursor = Math.max(0, Math.min(this.found.cells.length - 1, cell));
    this.#placeCursor();
    this.#say(this.cursor);
  }

  leave() {
    this.cursor = null;
    this.#placeCursor();
  }

  #placeCursor() {
    const cells = this.found?.cells.length;
    if (this.cursor !== null && cells) this.cursor = Math.min(this.cursor, cells - 1);
    this.cursorMark.hidden = this.cursor === null || !cells;
    if (this.cursorMark.hidden) return;
    this.cursorMark.style.left = `calc(${(100 * this.cursor) / cells}% - 2px)`;
    this.cursorMark.style.width = `calc(${100 / cells}% + 4px)`;
  }

  async look(from, to) {
    const { whole } = this.found;
    const low = Math.max(whole.from, Math.round(from));
    const high = Math.min(whole.to, Math.round(to));
    this.wanted = low <= whole.from && high >= whole.to ? null : { from: Math.min(low, high), to: high };
    this.cursor = null;
    try {
      await this.refresh();
    } catch (error) {
      this.said.textContent = `No answer: ${error.message}`;
      return;
    }
    const { view } = this.found;
    this.said.textContent = this.wanted ? `Showing blocks ${count(view.from)} to ${count(view.to)}` : "Showing the whole chain";
  }

  zoom(factor) {
    if (!this.found?.view) return;
    const { view } = this.found;
    const size = view.to - view.from + 1;
    const held = this.cursor === null ? null : this.range(this.cursor);
    const middle = held ? (held.from + held.to) / 2 : (view.from + view.to) / 2;
    const wanted = Math.max(8, size * factor);
    this.look(middle - wanted / 2, middle + wanted / 2 - 1);
  }

  shift(direction) {
    if (!this.wanted) return;
    const { view, whole } = this.found;
    const size = view.to - view.from + 1;
    const from = Math.max(whole.from, Math.min(whole.to - size + 1, view.from + (direction * size) / 2));
    this.look(from, from + size - 1);
  }

  showAll() {
    if (this.found?.whole) this.look(this.found.whole.from, this.found.whole.to);
  }
}
