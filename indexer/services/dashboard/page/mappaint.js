// A canvas of columns, each a part of the chain, stacked by state.

const STRIPED = new Set(["failed", "missing"]);
// What needs a look is drawn at least this large a part of its column.
const LEAST = { failed: 0.25, missing: 0.2, in_work: 0.12 };

export function draw(canvas, found) {
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
