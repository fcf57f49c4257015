// Tries a quota on the last hour, and shows the command that sets it.

const field = (id) => document.getElementById(id);

function send(path, value) {
  return ask(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(value),
  });
}

function part(kind) {
  switch (field(`${kind}-kind`).value) {
    case "default": return null;
    case "name": return field(`${kind}-name`).value;
    default: return undefined;
  }
}

function decimal(id, label) {
  const text = field(id).value.trim();
  if (!/^[0-9]*\.?[0-9]+(e[+-]?[0-9]+)?$/i.test(text) || !Number.isFinite(Number(text))) throw new Error(`${label}: enter a number above 0.`);
  return Number(text);
}

// Returns the quota in the form; JSON omits undefined fields.
function wantedQuota() {
  const entity = { user: part("user"), "client-id": part("client") };
  for (const [key, label] of [["user", "User"], ["client-id", "Client-id"]]) {
    if (entity[key] === "") throw new Error(`${label}: enter a name.`);
  }
  if (entity.user === undefined && entity["client-id"] === undefined) throw new Error("Choose a user, a client-id or both.");
  if (field("remove").checked) return { entity, controller_mutation_rate: null };
  const quota = { entity, controller_mutation_rate: decimal("rate", "Rate") };
  if (field("burst").value.trim()) quota.controller_mutation_burst = decimal("burst", "Burst");
  return quota;
}

function showParts() {
  for (const kind of ["user", "client"]) field(`${kind}-name`).hidden = field(`${kind}-kind`).value !== "name";
  for (const id of ["rate", "burst"]) field(id).disabled = field("remove").checked;
}

function forgetTrial() {
  showParts();
  field("trial-result").replaceChildren();
  setText(field("trial-error"), "");
}

// Fills the form with the current quota of a tenant.
function beginTrial(tenant) {
  for (const [kind, tag] of [["user", tenant.tags[0]], ["client", tenant.tags[1]]]) {
    field(`${kind}-kind`).value = tag ? "name" : "none";
    field(`${kind}-name`).value = tag;
  }
  field("remove").checked = false;
  field("rate").value = tenant.level ? String(tenant.level.rate) : "";
  const usual = tenant.level && tenant.level.rate * Number(PAGE.window);
  field("burst").value = tenant.level && Math.abs(tenant.level.burst - usual) > 1e-9 * usual ? String(tenant.level.burst) : "";
  forgetTrial();
  field("trial").scrollIntoView();
  field("rate").focus();
}

async function runTrial() {
  forgetTrial();
  const button = field("trial-form").querySelector("button");
  button.disabled = true;
  try {
    const wanted = wantedQuota();
    const found = await send("api/trials", wanted);
    field("trial-result").replaceChildren(...trialResult(found, wanted));
  } catch (error) {
    setText(field("trial-error"), error.message);
  } finally {
    button.disabled = false;
  }
}

function describeQuota(wanted) {
  if (wanted.controller_mutation_rate === null) return "no quota";
  const burst = wanted.controller_mutation_burst;
  return `${rate(wanted.controller_mutation_rate)}${burst === undefined ? "" : `, burst ${rounded(burst)}`}`;
}

function trialResult({ entity, trial, command }, wanted) {
  const { recorded, tried } = trial;
  const since = trial.since === null ? "" : ` since ${timeOf(trial.since)}`;
  const parts = [element("h3", {}, name(entity), `: ${describeQuota(wanted)}`)];
  if (!recorded.requests) {
    parts.push(sentence(`This quota would have applied to none of the ${counted(trial.requests, "request")}${since}.`));
  } else {
    const rows = [
      ["Requests", whole.format(recorded.requests), whole.format(tried.requests)],
      ["Requests rejected, wholly or in part", whole.format(recorded.rejected_requests), whole.format(tried.rejected_requests)],
      ["Mutations admitted", whole.format(recorded.admitted), whole.format(tried.admitted)],
      ["Mutations rejected", whole.format(recorded.rejected), whole.format(tried.rejected)],
      ["Total throttle time of senders", duration(recorded.throttled_seconds * 1000), duration(tried.throttled_seconds * 1000)],
      ["Most mutations admitted in a second", whole.format(recorded.peak), whole.format(tried.peak)],
    ].map(([label, before, after]) => [element("th", { scope: "row" }, label), number(before), number(after)]);
    parts.push(
      sentence(`It would have applied to ${counted(recorded.requests, "request")}${since}: ` +
        `${counted(tried.newly_admitted, "rejected mutation")} would have been admitted, and ` +
        `${counted(tried.newly_rejected, "admitted mutation")} would have been rejected. Clients that are rejected more or less ` +
        "often might have sent different requests."),
      table("The last hour", ["", "#As decided", "#With this quota"], rows),
      element("h3", {}, "By sender, with this quota"),
      table("Senders", ["User", "Client-id", "#Mutations admitted", "#Mutations rejected", "#Throttled"], trial.senders.map((each) => [
        element("th", { scope: "row" }, name(each.user)),
        element("td", {}, name(each.client_id)),
        number(whole.format(each.load.admitted)),
        number(whole.format(each.load.rejected)),
        number(duration(each.load.throttled_seconds * 1000)),
      ])),
    );
  }
  if (command === null) return [...parts, sentence("There is no quota to remove.")];
  const does = wanted.controller_mutation_rate === null ? "removes" : "sets";
  return [...parts, sentence(`This command ${does} it; --comment TEXT adds the reason to the history:`),
    element("pre", { id: "command" }, command)];
}

field("trial-form").addEventListener("submit", (event) => {
  event.preventDefault();
  runTrial();
});
field("trial-form").addEventListener("input", forgetTrial);
showParts();
