// The map: columns of a canvas, each a part of the chain, stacked by state.

import { count, element, show } from "./format.js";

const NAMES = {
  proven: "proven",
  stored: "stored",
  blocks_only: "blocks without receipts",
  in_work: "in work",
  queued: "queued",
  failed: "failed",
  missing: "missing, not queued",
  unplanned: "not planned",
};
const STRIPED = new Set(["failed", "missing"]);
// What needs a look is drawn at least this large a part of its column.
const LEAST = { failed: 0.25, missing: 0.2, in_work: 0.12 };
const CELL_PX = 4;
const ZOOM = 4;

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
    this.#listen();
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
    document.getElementById("zoom-out").disabled = !this.wanted;
    document.getElementById("zoom-all").disabled = !this.wanted;
    document.getElementById("move-left").disabled = !this.wanted;
    document.getElementById("move-right").disabled = !this.wanted;
  }

  // Where a cell lies, in heights.
  #range(cell) {
    const { view, cell_size: size } = this.found;
    const from = view.from + cell * size;
    return { from, to: Math.min(view.to, from + size - 1) };
  }

  #say(cell) {
    const { from, to } = this.#range(cell);
    const states = this.found.cells[cell]
      .map((n, index) => [n, NAMES[this.found.states[index]]])
      .filter(([n]) => n);
    const size = to - from + 1;
    const what = states.length === 1 ? states[0][1] : states.map(([n, name]) => `${count(n)} ${name}`).join(", ");
    this.said.textContent = size === 1 ? `Block ${count(from)}: ${what}` : `Blocks ${count(from)} to ${count(to)}: ${what}`;
  }

  #move(cell) {
    if (!this.found?.cells.length) return;
    this.cursor = Math.max(0, Math.min(this.found.cells.length - 1, cell));
    this.#placeCursor();
    this.#say(this.cursor);
  }

  #placeCursor() {
    const cells = this.found?.cells.length;
    if (this.cursor !== null && cells) this.cursor = Math.min(this.cursor, cells - 1);
    this.cursorMark.hidden = this.cursor === null || !cells;
    if (this.cursorMark.hidden) return;
    this.cursorMark.style.left = `calc(${(100 * this.cursor) / cells}% - 2px)`;
    this.cursorMark.style.width = `calc(${100 / cells}% + 4px)`;
  }

  async #look(from, to) {
    const { whole } = this.found;
    const low = Math.max(whole.from, Math.round(from));
    const high = Math.min(whole.to, Math.round(to));
    this.wanted = low <= whole.from && high >= whole.to ? null : { from: Math.min(low, high), to: high };
    this.cursor = null;
    await this.refresh();
    const { view } = this.found;
    this.said.textContent = this.wanted ? `Showing blocks ${count(view.from)} to ${count(view.to)}` : "Showing the whole chain";
  }

  #zoom(factor) {
    if (!this.found?.view) return;
    const { view } = this.found;
    const size = view.to - view.from + 1;
    const held = this.cursor === null ? null : this.#range(this.cursor);
    const middle = held ? (held.from + held.to) / 2 : (view.from + view.to) / 2;
    const wanted = Math.max(8, size * factor);
    this.#look(middle - wanted / 2, middle + wanted / 2 - 1);
  }

  #shift(direction) {
    if (!this.wanted) return;
    const { view, whole } = this.found;
    const size = view.to - view.from + 1;
    const from = Math.max(whole.from, Math.min(whole.to - size + 1, view.from + (direction * size) / 2));
    this.#look(from, from + size - 1);
  }

  #listen() {
    const press = (id, action) => document.getElementById(id).addEventListener("click", action);
    press("zoom-in", () => this.#zoom(1 / ZOOM));
    press("zoom-out", () => this.#zoom(ZOOM));
    press("zoom-all", () => this.#all());
    press("move-left", () => this.#shift(-1));
    press("move-right", () => this.#shift(1));
    this.place.addEventListener("keydown", (event) => this.#key(event));
    this.place.addEventListener("blur", () => { this.cursor = null; this.#placeCursor(); });
    document.getElementById("goto").addEventListener("submit", (event) => {
      event.preventDefault();
      const given = new FormData(event.target);
      const from = Number(given.get("from") || this.found.whole.from);
      const to = Number(given.get("to") || this.found.whole.to);
      this.#look(Math.min(from, to), Math.max(from, to));
    });
    this.#drag();
  }

  #all() {
    if (this.found?.whole) this.#look(this.found.whole.from, this.found.whole.to);
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const far = event.shiftKey ? 10 : 1;
    const at = this.cursor ?? Math.floor((this.found?.cells.length ?? 0) / 2);
    const actions = {
      ArrowRight: () => this.#move(this.cursor === null ? at : at + far),
      ArrowLeft: () => this.#move(this.cursor === null ? at : at - far),
      PageDown: () => this.#shift(1),
      PageUp: () => this.#shift(-1),
      Home: () => this.#move(0),
      End: () => this.#move(Infinity),
      Enter: () => this.#zoom(1 / ZOOM),
      "+": () => this.#zoom(1 / ZOOM),
      "=": () => this.#zoom(1 / ZOOM),
      "-": () => this.#zoom(ZOOM),
      Escape: () => this.#all(),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  #drag() {
    let start = null;
    const cellAt = (event) => {
      const box = this.place.getBoundingClientRect();
      const share = Math.max(0, Math.min(0.999999, (event.clientX - box.left) / box.width));
      return Math.floor(share * this.found.cells.length);
    };
    this.place.addEventListener("pointerdown", (event) => {
      if (!this.found?.cells.length || event.button) return;
      start = cellAt(event);
      this.place.setPointerCapture(event.pointerId);
    });
    this.place.addEventListener("pointermove", (event) => {
      if (!this.found?.cells.length) return;
      const cell = cellAt(event);
      this.#move(cell);
      this.selection.hidden = start === null || start === cell;
      if (this.selection.hidden) return;
      const cells = this.found.cells.length;
      this.selection.style.left = `${(100 * Math.min(start, cell)) / cells}%`;
      this.selection.style.width = `${(100 * (Math.abs(cell - start) + 1)) / cells}%`;
    });
    const end = (event) => {
      if (start !== null && event.type === "pointerup") {
        const cell = cellAt(event);
        if (cell !== start) this.#look(this.#range(Math.min(start, cell)).from, this.#range(Math.max(start, cell)).to);
      }
      start = null;
      this.selection.hidden = true;
    };
    this.place.addEventListener("pointerup", end);
    this.place.addEventListener("pointercancel", end);
    this.place.addEventListener("pointerleave", () => {
      if (start === null && document.activeElement !== this.place) { this.cursor = null; this.#placeCursor(); }
    });
  }
}

function draw(canvas, found) {
  const ratio = window.devicePixelRatio || 1;
  const width = (canvas.width = Math.round(canvas.clientWidth * ratio));
  const height = (canvas.height = Math.round(canvas.clientHeight * ratio));
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, width, height);
  const paints = paintsOf(context, found.states || [], ratio);
  const cells = found.cells;
  cells.forEach((counts, index) => {
    const left = Math.round((index * width) / cells.length);
    const right = Math.round(((index + 1) * width) / cells.length);
    const shares = sharesOf(counts, found.states);
    let bottom = height;
    shares.forEach((share, state) => {
      if (!share) return;
      const top = bottom - share * height;
      context.fillStyle = paints[state];
      context.fillRect(left, Math.floor(top), Math.max(1, right - left), Math.ceil(bottom) - Math.floor(top));
      bottom = top;
    });
  });
}

// The parts of a column; small parts that need a look are made large enough to see.
function sharesOf(counts, states) {
  const sum = counts.reduce((a, b) => a + b, 0) || 1;
  const shares = counts.map((n, index) => (n ? Math.max(n / sum, LEAST[states[index]] || 0) : 0));
  const total = shares.reduce((a, b) => a + b, 0) || 1;
  return shares.map((share) => share / total);
}

function paintsOf(context, states, ratio) {
  const style = getComputedStyle(document.documentElement);
  return states.map((state) => {
    const colour = style.getPropertyValue(`--${state}`).trim();
    if (!STRIPED.has(state)) return colour;
    // Told apart without colour, too.
    const size = Math.round(6 * ratio);
    const tile = document.createElement("canvas");
    tile.width = tile.height = size;
    const brush = tile.getContext("2d");
    brush.fillStyle = colour;
    brush.fillRect(0, 0, size, size);
    brush.strokeStyle = style.getPropertyValue("--card").trim();
    brush.lineWidth = size / 5;
    brush.beginPath();
    const [from, to] = state === "failed" ? [size, 0] : [0, size];
    brush.moveTo(0, from);
    brush.lineTo(size, to);
    brush.stroke();
    return context.createPattern(tile, "repeat");
  });
}
