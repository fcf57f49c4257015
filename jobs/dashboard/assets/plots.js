// The charts, of which each has a sentence and a table that say the same.

const ZERO = { decisions: 0, admitted: 0, rejected: 0, throttled: 0, wait: 0, p50: null, p99: null, letters: 0 };
const SECONDS = WIDTH / 1000;
const HEIGHT = 160;

const PLOTS = {
  load: {
    title: "Mutations requested",
    unit: "mutations/s",
    steps: true,
    cut: true,
    lines: [
      { label: "rejected", color: "--rejected", value: (at) => at.rejected / SECONDS, drawn: (at) => (at.admitted + at.rejected) / SECONDS },
      { label: "admitted", color: "--admitted", value: (at) => at.admitted / SECONDS },
    ],
    text: ([rejected, admitted], time) => {
      const both = rejected.map((value, bin) => value + admitted[bin]);
      const top = highest(both);
      return top.value > 0
        ? `Peak at ${time(top.bin)}: ${rate(admitted[top.bin])} admitted and ` +
          `${fine.format(rejected[top.bin])} rejected.${cutText(axisEnd(both))}`
        : "No requests in this period.";
    },
  },
  throttled: {
    title: "Throttled tenants",
    unit: "tenants",
    steps: true,
    whole: true,
    lines: [{ label: "throttled", color: "--rejected", value: (at) => at.throttled }],
    text: ([throttled], time) => {
      const top = highest(throttled);
      return top.value > 0 ? `At most ${counted(top.value, "tenant")} in one interval, at ${time(top.bin)}.` : "No tenant was throttled in this period.";
    },
  },
  wait: {
    title: "Longest throttle time",
    unit: "seconds",
    steps: true,
    lines: [{ label: "longest", color: "--line-2", value: (at) => at.wait / 1000 }],
    text: ([waits], time) => {
      const top = highest(waits);
      return top.value > 0 ? `The longest was ${duration(top.value * 1000)}, at ${time(top.bin)}.` : "No tenant was throttled in this period.";
    },
  },
  latency: {
    title: "From request to decision",
    unit: "ms",
    cut: true,
    lines: [
      { label: "slowest 1\u00a0% (p99)", color: "--line-2", value: (at) => at.p99 },
      { label: "median (p50)", color: "--line-1", value: (at) => at.p50 },
    ],
    text: ([p99, p50], time) => {
      const top = highest(p99);
      return top.value === null
        ? "No request was decided in this period."
        : `At its slowest, at ${time(top.bin)}, half of the requests were decided within ${duration(p50[top.bin])}, and ` +
          `${measured("99", "%")} within ${duration(top.value)}.${cutText(axisEnd(p99))}`;
    },
  },
};

class Plot {
  constructor(id, plan) {
    this.plan = plan;
    this.text = element("p", { class: "text", id: `${id}-text` });
    this.place = element("div", { class: "chart" });
    this.values = element("div", { class: "values" });
    this.details = element("details", {}, element("summary", {}, "Show as a table"), this.values);
    this.details.addEventListener("toggle", () => this.showTable());
    this.chart = null;
    this.section = element("section", { id, "aria-labelledby": `${id}-head` },
      element("h2", { id: `${id}-head` }, plan.title, " ", element("span", { class: "unit" }, plan.unit)), this.text,
      element("div", { role: "img", "aria-labelledby": `${id}-head ${id}-text` }, this.place), this.details);
  }

  show(times, intervals) {
    const { lines, text, steps } = this.plan;
    this.times = times;
    this.shown = lines.map((line) => intervals.map(line.value));
    const drawn = lines.map((line, each) => (line.drawn ? intervals.map(line.drawn) : this.shown[each]));
    setText(this.text, text(this.shown, (bin) => timeOf(times[bin])));
    const end = times[times.length - 1] + WIDTH;
    const xs = steps ? [...times, end] : times.map((time) => time + WIDTH / 2);
    const data = [xs, ...drawn.map((values) => (steps ? [...values, values[values.length - 1]] : values))];
    if (this.chart === null) this.chart = new uPlot(this.options(), data, this.place);
    else this.chart.setData(data);
    if (this.details.open) this.showTable();
  }

  showTable() {
    if (!this.details.open || this.values.contains(document.activeElement)) return;
    const rows = this.times.map((time, bin) => [
      element("th", { scope: "row" }, timeOf(time)),
      ...this.shown.map((values) => number(values[bin] === null ? "–" : fine.format(values[bin]))),
    ]).reverse();
    this.values.replaceChildren(table(`${this.plan.title}, ${this.plan.unit}`,
      ["UTC", ...this.plan.lines.map((line) => `#${line.label}`)], rows));
  }

  // Discards the chart, so that it is drawn again in different colours.
  forget() {
    this.chart?.destroy();
    this.chart = null;
  }

  resize() {
    this.chart?.setSize({ width: this.place.clientWidth, height: HEIGHT });
  }

  options() {
    const { lines, steps, cut } = this.plan;
    const quiet = { stroke: css("--text-2"), grid: { stroke: css("--grid"), width: 1 }, ticks: { show: false } };
    const font = "12px system-ui, sans-serif";
    const bounds = () => [this.times[0], this.times[this.times.length - 1] + WIDTH];
    const last = (bin) => Math.min(bin ?? this.times.length - 1, this.times.length - 1);  // the newest if the pointer is elsewhere
    const valueAt = (line, bin) => this.shown[line][last(bin)];
    return {
      width: this.place.clientWidth,
      height: HEIGHT,
      ms: 1,
      padding: [18, 26, 0, 0],
      tzDate: (ms) => uPlot.tzDate(new Date(ms), "UTC"),
      cursor: { drag: { setScale: false } },
      scales: {
        x: { range: bounds },
        y: { range: (chart, low, high) => [0, high > 0 ? Math.min(high, cut ? axisEnd(chart.data[1].slice(0, this.times.length)) : high) * 1.08 : 1] },
      },
      axes: [
        { ...quiet, font, size: 28, space: 76, incrs: TIME_STEPS, values: (_, splits, __, ___, step) => splits.map((ms) => tick(ms, step)) },
        { ...quiet, font, size: 56, incrs: this.plan.whole ? [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000] : undefined,
          values: (_, splits) => splits.map((value) => compact.format(value)) },
      ],
      series: [
        { label: "UTC", value: (_, __, ___, bin) => timeOf(this.times[last(bin)]) },
        ...lines.map((line, each) => ({
          label: line.label,
          stroke: css(line.color),
          width: 1.5,
          fill: steps ? css(line.color) : undefined,
          paths: steps ? uPlot.paths.stepped({ align: 1 }) : undefined,
          points: steps ? { show: false } : { show: true, size: 4, fill: css(line.color) },
          value: (_, __, ___, bin) => ((valueAt(each, bin) ?? null) === null ? "–" : fine.format(valueAt(each, bin))),
        })),
      ],
      hooks: {
        draw: [(chart) => marks(shownChanges(...bounds()))(chart)],
        setSelect: [(chart) => {
          const { left, width } = chart.select;
          if (width <= 4) return;
          const [from, to] = [left, left + width].map((x) => String(Math.round(chart.posToVal(x, "x"))));
          chart.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
          visit({ from, to });
        }],
      },
    };
  }
}
