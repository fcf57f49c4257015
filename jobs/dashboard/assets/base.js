// What the page's parts share: numbers and times as text, elements, tables, and helpers of charts. All values are inserted
// as text, never as markup.

// Attributes of the page: what a saved page has, `data-from`, is the start of its period.
const PAGE = document.documentElement.dataset;
const SAVED = "from" in PAGE;
const WIDTH = Number(PAGE.width);  // of an interval, in ms
const IN_PERIOD = SAVED ? "in this period" : "in the last hour";

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const UNITS = [["d", 86400000, "h", 3600000], ["h", 3600000, "min", 60000], ["min", 60000, "s", 1000]];
const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

function moment(ms) {
  const iso = new Date(ms).toISOString();
  return `${iso.slice(0, 10)} ${iso.slice(11, ms % 60000 ? 19 : 16)}`;
}

// The time to the second, or to the millisecond: in a saved page, whose period may be long, with the date.
const timeOf = (ms) => new Date(ms).toISOString().slice(SAVED ? 0 : 11, 19).replace("T", " ");
const exactTimeOf = (ms) => new Date(ms).toISOString().slice(SAVED ? 0 : 11, 23).replace("T", " ");

// A number and its unit, between which no line breaks.
const measured = (text, unit) => `${text}\u00a0${unit}`;
const rate = (count) => measured(fine.format(count), count === 1 ? "mutation/s" : "mutations/s");

// A duration as the commands print it: rounded up, in its two largest units, or with one decimal below a minute.
function duration(ms) {
  if (ms < 1000) return measured(Math.ceil(ms), ms ? "ms" : "s");
  const tenths = Math.ceil(ms / 100);
  if (tenths < 600) return measured(tenths / 10, "s");
  const [unit, size, smaller, small] = UNITS.find(([, size, , small]) => Math.ceil(ms / small) * small >= size);
  const all = Math.ceil(ms / small);
  const rest = all % (size / small);
  const most = measured(whole.format(Math.floor(all / (size / small))), unit);
  return rest ? `${most} ${measured(rest, smaller)}` : most;
}

const counted = (count, noun) => `${whole.format(count)} ${noun}${count === 1 ? "" : "s"}`;

// A tick of the time axis: the date at midnight, otherwise the time, with seconds if ticks are less than a minute
// apart.
function tick(ms, step) {
  const date = new Date(ms);
  if (step >= 86400000 || ms % 86400000 === 0) return `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`;
  return date.toISOString().slice(11, step < 60000 ? 19 : 16);
}

// The steps of a time axis (ms). uPlot's own go from 1 to 5 minutes, which leaves one label on a narrow screen.
const TIME_STEPS = [
  ...[1, 2, 5, 10, 15, 30].map((seconds) => seconds * 1000),
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * 60000),
  ...[1, 2, 3, 4, 6, 8, 12].map((hours) => hours * 3600000),
  ...[1, 2, 3, 5, 10, 15, 30, 60, 90, 180, 365, 730].map((days) => days * 86400000),
];

// The labels above numbered lines, from left to right. Labels that would overlap are merged, such as 3–13.
function labels(places, widthOf) {
  const made = [];
  for (const { number, x } of places) {
    let last = { first: number, last: number, from: x, to: x, text: String(number), middle: x };
    for (let before = made.at(-1); before && touch(before, last, widthOf); before = made.at(-1)) {
      made.pop();
      last = { ...last, first: before.first, from: before.from, middle: (before.from + last.to) / 2 };
      last.text = `${last.first}–${last.last}`;
    }
    made.push(last);
  }
  return made;
}

const touch = (left, right, widthOf) => right.middle - left.middle < (widthOf(left.text) + widthOf(right.text)) / 2;

// Draws dashed lines at quota changes, with their numbers in the table.
function marks(changes) {
  return (chart) => {
    const { ctx, bbox } = chart;
    const pixels = devicePixelRatio;
    ctx.save();
    ctx.lineWidth = pixels;
    ctx.font = `${11 * pixels}px system-ui, sans-serif`;
    ctx.textAlign = "center";
    ctx.strokeStyle = css("--mark");
    ctx.fillStyle = css("--mark");
    ctx.setLineDash([4 * pixels, 3 * pixels]);
    const places = changes.map(({ number, at }) => ({ number, x: Math.round(chart.valToPos(at, "x", true)) }));
    for (const { x } of places) {
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    for (const { text, middle } of labels(places, (text) => ctx.measureText(text).width + 8 * pixels)) {
      ctx.fillText(text, middle, bbox.top - 4 * pixels);
    }
    ctx.restore();
  };
}

const sum = (values) => values.reduce((total, value) => total + value, 0);

function highest(values) {
  let bin = -1;
  values.forEach((value, each) => { if (value !== null && (bin < 0 || value > values[bin])) bin = each; });
  return { bin, value: bin < 0 ? null : values[bin] };
}

// The end of an axis for values of which one is more than ten times all others: those are seen, and it is cut off.
function axisEnd(values) {
  const [top, next] = values.filter((value) => value !== null).sort((left, right) => right - left);
  return next > 0 && top > 10 * next ? next * 2 : Infinity;
}

const cutText = (end) => (Number.isFinite(end) ? ` The axis ends at ${fine.format(end)}, below this peak.` : "");

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// A name from a record, whose text direction is isolated from the page's.
const name = (text) => (text ? element("bdi", {}, text) : "");

const number = (text) => element("td", { class: "number" }, text);

// A table in a frame that scrolls, also by keyboard, and says so; `update` takes its number of rows.
function scrolling(caption, made) {
  const scroll = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, made);
  const count = element("p", { class: "rows" });
  const frame = element("div", {}, scroll, count);
  let rows = 0;
  const update = (now = rows) => {
    rows = now;
    const overflows = scroll.scrollHeight > scroll.clientHeight + 1;
    frame.className = overflows && scroll.scrollTop + scroll.clientHeight < scroll.scrollHeight - 1 ? "more" : "";
    count.textContent = counted(rows, "row") + (overflows ? "; scroll to see all" : "");
  };
  scroll.addEventListener("scroll", () => update());
  new ResizeObserver(() => update()).observe(scroll);
  return { frame, update };
}

// Gives the cells of a row the headings of their columns, for a phone, on which a row is a card, and the roles of a table,
// which a card does not have by itself.
function asCard(row, heads) {
  row.setAttribute("role", "row");
  [...row.children].forEach((cell, at) => {
    const head = heads[at].replace(/^#/, "");
    cell.dataset.label = head.charAt(0).toLowerCase() + head.slice(1);
    cell.setAttribute("role", cell.tagName === "TH" ? "rowheader" : "cell");
  });
  return row;
}

// The heading of a column; # at its beginning marks numbers. `show` returns what is shown of its text.
function columnHead(head, show = (text) => text) {
  const kind = head[0] === "#" ? "number" : "text";
  return element("th", { scope: "col", role: "columnheader", class: kind }, show(head.replace(/^#/, "")));
}

// A table with its rows.
function table(caption, heads, rows) {
  const columns = heads.map((head) => columnHead(head));
  const { frame, update } = scrolling(caption, element("table", { class: "cards", role: "table" },
    element("caption", { class: "hidden" }, caption),
    element("thead", { role: "rowgroup" }, element("tr", { role: "row" }, ...columns)),
    element("tbody", { role: "rowgroup" }, ...rows.map((cells) => asCard(element("tr", {}, ...cells), heads)))));
  update(rows.length);
  return frame;
}

function put(id, ...children) {
  document.getElementById(id).replaceChildren(...children);
}

const sentence = (text) => element("p", { class: "quiet" }, text);
