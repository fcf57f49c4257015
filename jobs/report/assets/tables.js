// Tables of a report. All values are inserted as text, never as markup.

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// A name from a record, whose text direction is isolated from the page's.
const name = (text) => (text ? element("bdi", {}, text) : "");

// A cell with a bar in the background, whose length is the value's share of the largest one.
function barred(text, share, color) {
  const cell = element("td", { class: "number bar" }, text);
  cell.style.setProperty("--part", `${Math.min(100, share * 100)}%`);
  cell.style.setProperty("--bar", `var(${color})`);
  return cell;
}

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

// The values of a chart as a table, for screen readers.
function chartTable(title, plan, times) {
  const rows = times.map((time, bin) => [
    element("th", { scope: "row" }, moment(time)),
    ...plan.lines.map((line) => number(line.values[bin] === null ? "–" : fine.format(line.values[bin]))),
  ]);
  return table(`${title}, ${plan.unit}`, ["UTC", ...plan.lines.map((line) => `#${line.label}`)], rows);
}

function tenantTable(chosen, choose) {
  const all = [...DATA.tenants, ...(DATA.others ? [DATA.others] : [])];
  const rows = all.map((each, number) => ({ number, ...totals(slice(each)), name: each.name }))
    .filter((each) => each.requests > 0);
  if (!rows.length) return sentence("No requests in this period.");
  rows.sort((left, right) => right.rejected - left.rejected || right.admitted - left.admitted);
  const most = (key) => Math.max(1, ...rows.map((each) => each[key]));
  const [rejected, throttled] = [most("rejected"), most("throttled")];
  return table("Tenants, with the most rejected mutations first",
    ["Tenant", "#Requests", "#Mutations admitted", "#Mutations rejected", "#Throttled", "#Lowest tokens (% of burst)"],
    rows.map((each) => {
      const button = element("button", { type: "button", class: "link", title: "Show only this tenant" }, name(each.name));
      button.addEventListener("click", () => choose(each.number));
      if (chosen.tenant === each.number) button.setAttribute("aria-current", "true");
      return [
        element("th", { scope: "row" }, button),
        number(whole.format(each.requests)),
        number(whole.format(each.admitted)),
        barred(whole.format(each.rejected), each.rejected / rejected, "--rejected"),
        barred(each.throttled ? duration(each.throttled) : "–", each.throttled / throttled, "--rejected"),
        number(percent(each.lowest)),
      ];
    }));
}

function changeTable(changes) {
  if (!changes.length) return sentence("No changes in this period.");
  return table("Quota changes, newest first", ["#No.", "Effective from (UTC)", "Change", "By", "Comment"],
    [...changes].reverse().map((each) => [
      number(each.number),
      element("td", {}, moment(each.at)),
      element("td", {}, name(each.what)),
      element("td", {}, name(each.altered_by)),
      element("td", {}, name(each.comment)),
    ]));
}

function letterTable(first, last) {
  if (DATA.letters === null) return sentence("Dead letters do not belong to a user; the report on all users lists them.");
  const rows = DATA.letters.map((each) => ({ ...each, count: sum(each.counts.slice(first, last)) }))
    .filter((each) => each.count > 0).sort((left, right) => right.count - left.count);
  if (!rows.length) return sentence("No dead letters in this period.");
  const most = rows[0].count;
  return table("Dead letters by reason", ["Field", "#Records", "Topic", "Example"], rows.map((each) => [
    element("th", { scope: "row" }, name(each.field)),
    barred(whole.format(each.count), each.count / most, "--line-2"),
    element("td", {}, name(each.topic)),
    element("td", {}, name(each.example)),
  ]));
}

function candidateTable() {
  const rows = DATA.candidates.tried;
  if (!rows.length) return sentence("The comparison has no results.");
  const most = Math.max(1, ...rows.map((each) => each.load.rejected));
  return table("The effect of different quotas",
    ["Quotas", "Sender", "#Mutations admitted", "#Mutations rejected", "#Throttled", "#Busiest second"],
    rows.map(({ candidate, sender, load }) => [
      element("th", { scope: "row" }, name(candidate)),
      element("td", {}, name(sender)),
      number(whole.format(load.admitted)),
      barred(whole.format(load.rejected), load.rejected / most, "--rejected"),
      number(load.throttled_seconds ? duration(load.throttled_seconds * 1000) : "–"),
      number(whole.format(load.peak)),
    ]));
}
