// The tenants, the decisions and the quota changes.

const MAX_ROWS = 200;

// The tokens of a bucket now, computed from those at its last decision.
function tokensNow(level, now) {
  return Math.min(level.tokens + (Math.max(0, now - level.at) / 1000) * level.rate, level.burst);
}

const isDebt = (tokens) => tokens < -1e-9;  // a smaller debt is a rounding error, for which no request is rejected

// Formats tokens with one decimal if their absolute value is below 10. A debt is never shown as zero, because its sign
// matters.
function rounded(tokens) {
  const near = isDebt(tokens) ? Math.min(Math.round(tokens * 10) / 10, -0.1) : Math.max(0, Math.round(tokens * 10) / 10);
  return Math.abs(near) < 10 ? fine.format(near) : whole.format(tokens);
}

function makeTenants() {
  return new LiveTable("tenants-table", "Tenants and their buckets",
    ["Tenant", "Bucket", ["#Rate", "rate"], ["#Throttled for", "wait"], ["#Mutations admitted", "admitted"],
      ["#Mutations rejected", "rejected"], "Shares", ...(SAVED ? [] : ["Quota"])],
    (item) => {
      const button = element("button", { type: "button", class: "link" }, name(item.name));
      button.addEventListener("click", () => visit({ tenant: parts.item.key, decision: "" }));
      const bar = element("i");
      const parts = {
        button,
        bar,
        level: element("div", { class: "level", role: "img" }, bar),
        amount: element("div", { class: "amount" }),
        bucket: element("td", { class: "bucket" }),
        rate: number(""),
        wait: number(""),
        admitted: number(""),
        rejected: number(""),
        senders: element("td", { class: "who" }),
      };
      parts.bucket.append(parts.level, parts.amount);
      parts.row = element("tr", {}, element("th", { scope: "row" }, button),
        parts.bucket, parts.rate, parts.wait, parts.admitted, parts.rejected, parts.senders);
      if (!SAVED) {
        const tryIt = element("button", { type: "button", "aria-label": `Try a different quota for ${item.name}` }, "Try…");
        tryIt.addEventListener("click", () => beginTrial(parts.item));
        parts.row.append(element("td", {}, tryIt));
      }
      return parts;
    },
    (parts, item) => {
      parts.item = item;
      setText(parts.admitted, whole.format(item.admitted));
      setText(parts.rejected, whole.format(item.rejected));
      setText(parts.senders, item.senders);
      setText(parts.rate, item.level ? `${fine.format(item.level.rate)}/s` : "");
      updateLevel(parts, now());
    });
}

// Updates the level of a bucket to the current time.
function updateLevel(parts, present) {
  const { level, retry_at: retryAt, shadow } = parts.item;
  parts.level.hidden = level === null;
  if (level === null) {
    setText(parts.amount, "no quota");
  } else {
    const tokens = tokensNow(level, present);
    const inDebt = isDebt(tokens);
    const text = `${rounded(tokens)} of ${rounded(level.burst)}${shadow ? " (shadow)" : ""}` +
      (inDebt ? `, zero in ${duration((-tokens / level.rate) * 1000)}` : "");
    parts.level.classList.toggle("debt", inDebt);
    parts.bar.style.transform = `scaleX(${Math.min(1, Math.abs(tokens) / level.burst)})`;
    parts.level.setAttribute("aria-label", inDebt ? `in debt: ${text} mutations` : `${text} mutations`);
    setText(parts.amount, text);
  }
  const left = retryAt - present;
  setText(parts.wait, left > 0 ? duration(left) : "");
}

const ANSWERS = { ADMITTED: "admitted", PARTIAL: "partial", REJECTED: "rejected" };

function makeDecisions(id, withUser = true, withClient = true) {
  return new LiveTable(id, "Decisions, newest first",
    ["Time (UTC)", ...(withUser ? ["User"] : []), ...(withClient ? ["Client-id"] : []), "Request", "Outcome", "#Tokens", "#Throttle time", "#Decided in"],
    (item) => {
      const button = element("button", {
        type: "button", class: "link time",
        "aria-label": `${exactTimeOf(item.at)}, ${item.user}, ${item.client}, ${ANSWERS[item.outcome]}: explain`,
      }, exactTimeOf(item.at));
      const rejected = item.outcome !== "ADMITTED";
      const answer = element("span", { class: rejected ? "answer rejected" : "answer" },
        (item.shadow ? "shadow: " : "") + ANSWERS[item.outcome] + (item.validate_only ? ", validate-only" : "") +
        (item.reason ? `: ${item.reason.toLowerCase().replace("_", " ")}` : ""));
      const request = element("td", { class: "wide" }, `${item.operation.toLowerCase().replace("_", " ")}: `, name(item.topic),
        item.topics > 1 ? ` and ${whole.format(item.topics - 1)} more` : "",
        item.validate_only ? "" : `, ${counted(item.admitted + item.rejected, "mutation")}`);
      const row = element("tr", { class: "chosen" }, element("th", { scope: "row" }, button),
        ...(withUser ? [element("td", { class: "who" }, name(item.user))] : []),
        ...(withClient ? [element("td", { class: "who" }, name(item.client))] : []), request,
        element("td", {}, answer),
        number(item.before === null ? "" : `${rounded(item.before)} → ${rounded(item.after)}`),
        number(item.wait ? duration(item.wait) : ""),
        number(item.latency === null ? "" : duration(item.latency)));
      row.addEventListener("click", () => visit({ decision: item.id, tenant: "" }));
      return { row };
    },
    () => {});
}

function makeChanges() {
  return new LiveTable("changes-table", "Quota changes, newest first", ["#No.", "Effective from (UTC)", "Change", "By", "Comment"],
    (item) => ({
      row: element("tr", {},
        number(item.number ? whole.format(item.number) : ""),
        element("td", {}, item.at ? moment(item.at) : ""),
        element("td", { class: "wide" }, name(item.what)),
        element("td", {}, name(item.altered_by)),
        element("td", {}, name(item.comment))),
    }),
    () => {});
}
