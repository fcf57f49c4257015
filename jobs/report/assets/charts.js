// Charts of a report, drawn with uPlot.

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
const percent = (share) => (share === null ? "–" : measured(fine.format(share * 100), "%"));

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

// Draws dashed lines at quota changes, with their numbers in the table, and a line at zero if there are values below
// it.
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
    if (chart.scales.y.min < 0) {
      const y = Math.round(chart.valToPos(0, "y", true));
      ctx.setLineDash([]);
      ctx.strokeStyle = css("--text");
      ctx.beginPath();
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
      ctx.stroke();
    }
    ctx.restore();
  };
}

// Whether this is the sum of the tenants that are not listed.
const isOthers = (each) => each.name === DATA.others?.name;

// The content of each chart for a selection: lines with their values, and a sentence that describes them.
const CHARTS = {
  load: (chosen) => {
    const seconds = DATA.width / 1000;
    const both = chosen.admitted.map((count, bin) => (count + chosen.rejected[bin]) / seconds);
    const admitted = chosen.admitted.map((count) => count / seconds);
    const rejected = chosen.rejected.map((count) => count / seconds);
    const top = highest(both);
    const end = axisEnd(both);
    return {
      unit: "mutations/s",
      steps: true,
      end,
      lines: [
        { label: "rejected", values: rejected, drawn: both, color: "--rejected" },
        { label: "admitted", values: admitted, color: "--admitted" },
      ],
      text: top.value > 0
        ? `Peak at ${chosen.time(top.bin)}: ${rate(admitted[top.bin])} admitted ` +
          `and ${fine.format(rejected[top.bin])} rejected, averaged over ${duration(DATA.width)}.${cutText(end)}`
        : "No requests.",
    };
  },
  throttled: (chosen) => {
    const one = chosen.tenant !== null && !isOthers(chosen);
    const shares = chosen.throttled.map((ms) => ms / DATA.width);
    const top = highest(shares);
    return {
      unit: "tenants throttled at once, on average",
      counts: true,
      steps: true,
      lines: [{ label: "throttled", values: shares, color: "--rejected" }],
      text: top.value > 0
        ? `Throttled for ${duration(sum(chosen.throttled))} in total${one ? "" : ", summed over tenants"}; most at ` +
          `${chosen.time(top.bin)}: ` + (one
          ? `${duration(chosen.throttled[top.bin])} of ${duration(DATA.width)}.`
          : `${fine.format(top.value)} at once, averaged over ${duration(DATA.width)}.`)
        : "No tenant was throttled.",
    };
  },
  tokens: (chosen) => {
    const one = chosen.tenant !== null;
    const unit = one ? "mutations" : "% of the burst";
    const values = (each) => (one ? each.tokens : each.share.map((value) => (value === null ? null : value * 100)));
    const charged = (one ? [chosen] : groups.map(slice))
      .map((each) => ({ name: each.name, values: values(each), low: lowest(values(each)) }))
      .filter((each) => each.low.value !== null);
    const worst = charged.reduce((least, each) => (least && least.low.value <= each.low.value ? least : each), null);
    const lines = charged.filter((each) => one || !isOthers(each))
      .sort((left, right) => (right === worst) - (left === worst)).slice(0, 3)
      .map((each, number) => ({ label: each.name, values: each.values, color: `--line-${number + 1}`, points: true }));
    const start = one || worst?.low.value >= LOWEST_SHARE ? -Infinity : LOWEST_SHARE;
    const isDrawn = lines.some((line) => line.label === worst?.name);
    return {
      unit,
      start,
      lines,
      text: worst
        ? `The lowest was ${measured(fine.format(worst.low.value), unit)}, of ${worst.name}${isDrawn ? "" : " (not drawn)"}, ` +
          `at ${chosen.time(worst.low.bin)}. Below zero, strict requests are rejected.${cutText(start, "above this value")}`
        : "No bucket was charged.",
    };
  },
  latency: (chosen) => {
    const top = highest(chosen.p99);
    const end = axisEnd(chosen.p99);
    return {
      unit: "ms",
      end,
      lines: [
        { label: "slowest 1\u00a0% (p99)", values: chosen.p99, color: "--line-2", points: true },
        { label: "median (p50)", values: chosen.p50, color: "--line-1", points: true },
      ],
      text: top.value === null
        ? "No request was decided."
        : `The slowest interval was at ${chosen.time(top.bin)}: half of the requests were decided within ` +
          `${duration(chosen.p50[top.bin])}, and ${percent(0.99)} within ${duration(top.value)}.${cutText(end)}`,
    };
  },
};

const sum = (values) => values.reduce((total, value) => total + value, 0);

function highest(values) {
  let bin = -1;
  values.forEach((value, each) => { if (value !== null && (bin < 0 || value > values[bin])) bin = each; });
  return { bin, value: bin < 0 ? null : values[bin] };
}

function lowest(values) {
  const { bin, value } = highest(values.map((each) => (each === null ? null : -each)));
  return { bin, value: value === null ? null : -value };
}

// The end of an axis for values of which one is more than ten times all others: those are seen, and it is cut off.
function axisEnd(values) {
  const [top, next] = values.filter((value) => value !== null).sort((left, right) => right - left);
  return next > 0 && top > 10 * next ? next * 2 : Infinity;
}

const cutText = (end, where = "below this peak") => (Number.isFinite(end) ? ` The axis ends at ${fine.format(end)}, ${where}.` : "");

// The lowest tokens that the axis of all tenants shows, in % of the burst: a deeper debt would flatten the others' tokens.
const LOWEST_SHARE = -200;

// The steps of an axis of counts, which has no fractions.
const WHOLE_STEPS = Array.from({ length: 10 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** power)).flat();

function highestShown(plan, low, high) {
  if (plan.counts) return Math.max(1, high) * 1.05;
  return high > 0 ? Math.min(high, plan.end ?? Infinity) * 1.05 : low < 0 ? 0 : 1;
}

// Draws a chart into an element; `onSelect` gets the start and end of a dragged selection.
function draw(element, plan, times, changes, onSelect) {
  const end = times[times.length - 1] + DATA.width;
  const held = (values) => (plan.steps ? [...values, values[values.length - 1]] : values);
  const xs = plan.steps ? [...times, end] : times.map((time) => time + DATA.width / 2);
  const quiet = { stroke: css("--text-2"), grid: { stroke: css("--grid"), width: 1 }, ticks: { show: false } };
  const font = "12px system-ui, sans-serif";
  element.replaceChildren();
  return new uPlot({
    width: element.clientWidth,
    height: 230,
    ms: 1,
    padding: [18, 26, 0, 0],
    tzDate: (ms) => uPlot.tzDate(new Date(ms), "UTC"),
    cursor: { drag: { setScale: false } },
    scales: {
      x: { range: () => [times[0], end] },
      y: { range: (_, low, high) => [Math.min(0, Math.max(low, plan.start ?? -Infinity)) * 1.05, highestShown(plan, low, high)] },
    },
    axes: [
      { ...quiet, font, space: 76, incrs: TIME_STEPS, values: (_, splits, __, ___, step) => splits.map((ms) => tick(ms, step)) },
      { ...quiet, font, size: 56, incrs: plan.counts ? WHOLE_STEPS : undefined, values: (_, splits) => splits.map((value) => compact.format(value)) },
    ],
    series: [
      { label: "UTC", value: (_, ms) => (ms === null ? "–" : moment(plan.steps ? ms : ms - DATA.width / 2)) },
      ...plan.lines.map((line) => ({
        label: line.label,
        stroke: css(line.color),
        width: 1.5,
        fill: plan.steps ? css(line.color) : undefined,
        paths: plan.steps ? uPlot.paths.stepped({ align: 1 }) : undefined,
        points: line.points ? { show: true, size: 4, fill: css(line.color) } : { show: false },
        value: (_, __, ___, bin) => (bin === null || (line.values[bin] ?? null) === null ? "–" : fine.format(line.values[bin])),
      })),
    ],
    hooks: {
      draw: [marks(changes)],
      setSelect: [(chart) => {
        const { left, width } = chart.select;
        if (width > 4) onSelect(chart.posToVal(left, "x"), chart.posToVal(left + width, "x"));
      }],
    },
  }, [xs, ...plan.lines.map((line) => held(line.drawn ?? line.values))], element);
}
