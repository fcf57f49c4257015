// The page of a report: selects a part of its figures, and shows it.

const DATA = JSON.parse(document.getElementById("figures").textContent);
const COLUMNS = ["requests", "admitted", "rejected", "peak", "throttled", "tokens", "share", "p50", "p99"];
const choice = { tenant: null, first: 0, last: DATA.count };
const [tenant, from, to] = ["tenant", "from", "to"].map((id) => document.getElementById(id));
const groups = [...DATA.tenants, ...(DATA.others ? [DATA.others] : [])];

// A series within the selected period.
function slice(series) {
  const cut = Object.fromEntries(COLUMNS.map((column) => [column, series[column].slice(choice.first, choice.last)]));
  return { ...series, ...cut };
}

function totals(series) {
  const known = series.share.filter((share) => share !== null);
  return {
    requests: sum(series.requests),
    admitted: sum(series.admitted),
    rejected: sum(series.rejected),
    throttled: sum(series.throttled),
    lowest: known.length ? Math.min(...known) : null,
  };
}

const timeOf = (bin) => DATA.start + bin * DATA.width;

// Whether a change may concern the selected tenant: it does not name a different one.
function concerns(change) {
  if (choice.tenant === null || choice.tenant >= DATA.tenants.length) return true;
  const { user, client_id: client } = DATA.tenants[choice.tenant];
  return [[change.user, user], [change.client_id, client]].every(([named, own]) => !named || !own || named === own);
}

function show() {
  const series = choice.tenant === null ? DATA.total : groups[choice.tenant];
  const chosen = { ...slice(series), tenant: choice.tenant, time: (bin) => `${moment(timeOf(choice.first + bin))} UTC` };
  const times = chosen.requests.map((_, bin) => timeOf(choice.first + bin));
  const end = timeOf(choice.last);
  const changes = DATA.changes.filter((each) => each.at >= times[0] && each.at < end && concerns(each));
  tenant.value = choice.tenant ?? "";
  showTimes(times[0], end);
  showTiles(chosen, totals(chosen));
  for (const section of document.querySelectorAll(".charts > section")) {
    const plan = CHARTS[section.id](chosen);
    section.querySelector(".text").textContent = plan.text;
    section.querySelector(".unit").textContent = plan.unit;
    section.chart?.destroy();
    section.chart = draw(section.querySelector(".chart"), plan, times, changes, select);
    const details = section.querySelector("details");
    const fill = () => details.querySelector(".values").replaceChildren(
      ...(details.open ? [chartTable(section.querySelector("h2").textContent, plan, times)] : []));
    details.ontoggle = fill;
    fill();
  }
  put("tenants-table", tenantTable(chosen, choose));
  put("changes-table", changeTable(changes));
  put("letters-table", letterTable(choice.first, choice.last));
}

function showTimes(start, end) {
  from.value = choice.first;
  to.value = choice.last;
  for (const [input, time] of [[from, start], [to, end]]) {
    input.setAttribute("aria-valuetext", `${moment(time)} UTC`);
    document.getElementById(`${input.id}-time`).textContent = moment(time);
  }
}

function showTiles(chosen, all) {
  const requested = all.admitted + all.rejected;
  const tiles = [
    ["Requests", whole.format(all.requests)],
    ["Mutations admitted", whole.format(all.admitted)],
    ["Mutations rejected", whole.format(all.rejected), requested ? `${percent(all.rejected / requested)} of all requested` : ""],
    ["Busiest second", whole.format(highest(chosen.peak).value ?? 0), "mutations admitted"],
    ["Throttled", all.throttled ? duration(all.throttled) : "never", "total over all tenants"],
  ];
  if (document.getElementById("latency")) {
    const slowest = highest(chosen.p99).value;
    tiles.push(["Worst p99", slowest === null ? "–" : duration(slowest), `over ${duration(DATA.width)}, request to decision`]);
  }
  put("tiles", ...tiles.map(([label, value, more = ""]) => element("div", { class: "tile" },
    element("dt", {}, label), element("dd", {}, element("strong", {}, value), element("span", {}, more)))));
  document.getElementById("status").textContent =
    `${chosen.tenant === null ? "All tenants" : chosen.name}: ${counted(all.requests, "request")}, ` +
    `${counted(all.admitted, "mutation")} admitted, ${whole.format(all.rejected)} rejected.`;
}

function choose(number) {
  choice.tenant = number;
  show();
  tenant.focus();
}

// Selects the intervals that overlap a period.
function select(start, end) {
  choice.first = Math.max(0, Math.floor((start - DATA.start) / DATA.width));
  choice.last = Math.min(DATA.count, Math.max(choice.first + 1, Math.ceil((end - DATA.start) / DATA.width)));
  show();
}

function begin() {
  DATA.changes.forEach((change, index) => { change.number = index + 1; });
  tenant.append(element("option", { value: "" }, "All tenants"),
    ...groups.map((each, index) => element("option", { value: index }, each.name)));
  tenant.addEventListener("change", () => { choice.tenant = tenant.value === "" ? null : Number(tenant.value); show(); });
  if (DATA.candidates) put("candidates-table", candidateTable());
  for (const input of [from, to]) input.max = DATA.count;
  from.addEventListener("input", () => {
    choice.first = Math.min(Number(from.value), DATA.count - 1);
    choice.last = Math.max(choice.last, choice.first + 1);
    show();
  });
  to.addEventListener("input", () => {
    choice.last = Math.max(Number(to.value), 1);
    choice.first = Math.min(choice.first, choice.last - 1);
    show();
  });
  document.getElementById("all").addEventListener("click", () => {
    Object.assign(choice, { tenant: null, first: 0, last: DATA.count });
    show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  let width = innerWidth;
  addEventListener("resize", () => {
    if (width !== innerWidth) show();  // bars of a phone's browser change only the height
    width = innerWidth;
  });
  show();
}

begin();
