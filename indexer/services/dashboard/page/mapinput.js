// The map by keyboard, by buttons and by pointer.

const ZOOM = 4;

export function listen(map) {
  const { place } = map;
  const press = (id, action) => document.getElementById(id).addEventListener("click", action);
  press("zoom-in", () => map.zoom(1 / ZOOM));
  press("zoom-out", () => map.zoom(ZOOM));
  press("zoom-all", () => map.showAll());
  press("move-left", () => map.shift(-1));
  press("move-right", () => map.shift(1));
  place.addEventListener("keydown", (event) => onKey(map, event));
  place.addEventListener("blur", () => map.leave());
  document.getElementById("goto").addEventListener("submit", (event) => {
    event.preventDefault();
    if (!map.found?.whole) return;
    const given = new FormData(event.target);
    const from = Number(given.get("from") || map.found.whole.from);
    const to = Number(given.get("to") || map.found.whole.to);
    map.look(Math.min(from, to), Math.max(from, to));
  });
  drag(map);
}

function onKey(map, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const far = event.shiftKey ? 10 : 1;
  const at = map.cursor ?? Math.floor((map.found?.cells.length ?? 0) / 2);
  const actions = {
    ArrowRight: () => map.move(map.cursor === null ? at : at + far),
    ArrowLeft: () => map.move(map.cursor === null ? at : at - far),
    PageDown: () => map.shift(1),
    PageUp: () => map.shift(-1),
    Home: () => map.move(0),
    End: () => map.move(Infinity),
    Enter: () => map.zoom(1 / ZOOM),
    "+": () => map.zoom(1 / ZOOM),
    "=": () => map.zoom(1 / ZOOM),
    "-": () => map.zoom(ZOOM),
    Escape: () => map.showAll(),
  };
  const action = actions[event.key];
  if (!action) return;
  event.preventDefault();
  action();
}

function drag(map) {
  const { place, selection } = map;
  let start = null;
  const cellAt = (event) => {
    const box = place.getBoundingClientRect();
    const share = Math.max(0, Math.min(0.999999, (event.clientX - box.left) / box.width));
    return Math.floor(share * map.found.cells.length);
  };
  place.addEventListener("pointerdown", (event) => {
    if (!map.found?.cells.length || event.button) return;
    start = cellAt(event);
    place.setPointerCapture(event.pointerId);
  });
  place.addEventListener("pointermove", (event) => {
    if (!map.found?.cells.length) return;
    const cell = cellAt(event);
    map.move(cell);
    selection.hidden = start === null || start === cell;
    if (selection.hidden) return;
    const cells = map.found.cells.length;
    selection.style.left = `${(100 * Math.min(start, cell)) / cells}%`;
    selection.style.width = `${(100 * (Math.abs(cell - start) + 1)) / cells}%`;
  });
  const end = (event) => {
    if (start !== null && event.type === "pointerup") {
      const cell = cellAt(event);
      if (cell !== start) map.look(map.range(Math.min(start, cell)).from, map.range(Math.max(start, cell)).to);
    }
    start = null;
    selection.hidden = true;
  };
  place.addEventListener("pointerup", end);
  place.addEventListener("pointercancel", end);
  place.addEventListener("pointerleave", () => {
    if (start === null && document.activeElement !== place) map.leave();
  });
}
