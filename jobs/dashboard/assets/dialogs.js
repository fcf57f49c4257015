// The dialogs: the explanation of a decision, and the decisions of a tenant.

const dialog = document.getElementById("dialog");
const dialogTitle = document.getElementById("dialog-title");

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options });
  } catch {
    throw new Error("The dashboard does not respond. Is it still running?");
  }
  if (!(answer.headers.get("content-type") ?? "").startsWith("application/json")) throw new Error((await answer.text()).trim());
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.error);
  return value;
}

// Opens the dialog of the address, if there is one, or closes it.
function showDialog() {
  const wanted = ["decision", "tenant"].find((key) => address.has(key));
  if (!wanted) dialog.close();
  else if (dialog.shown !== address.get(wanted)) {
    dialog.shown = address.get(wanted);
    (wanted === "decision" ? openExplanation : openTenant)(dialog.shown);
  }
}

async function openDialog(title, load) {
  setText(dialogTitle, title);
  put("dialog-body", sentence("Loading…"));
  if (!dialog.open) dialog.showModal();
  dialogTitle.focus();
  const opened = (dialog.opened = {});
  let content;
  try {
    content = await load();
  } catch (error) {
    content = [element("p", { class: "error", role: "alert" }, error.message)];
  }
  if (dialog.opened === opened) put("dialog-body", ...content);
}

function openExplanation(id) {
  openDialog(`Decision ${id}`, async () => {
    const found = await ask(`/api/decisions/${encodeURIComponent(id)}`);
    const lines = element("dl", { class: "lines" });
    for (const [part, text] of found.lines) lines.append(element("dt", {}, part), element("dd", {}, name(text)));
    return [
      element("p", { class: "done" }, name(found.summary)),
      lines,
    ];
  });
}

function openTenant(key) {
  openDialog("Decisions of a tenant", async () => {
    const { tenant, decisions: found } = await ask(`/api/buckets?key=${encodeURIComponent(key)}`);
    if (tenant === null) return [sentence(`No tenant with the bucket ${key} has sent requests in the last hour.`)];
    setText(dialogTitle, `Decisions of ${tenant.name}`);
    const place = element("div", { id: "tenant-decisions" });
    put("dialog-body", place);  // the table finds its element in the page
    const made = makeDecisions("tenant-decisions", tenant.user === "*", tenant.client === "*");
    made.show(found, (each) => each.id, "Its decisions are no longer stored.");
    return [
      sentence(tenant.level
        ? `Quota: ${rate(tenant.level.rate)}, at most ${rounded(tenant.level.burst)} at once` +
          `${tenant.entity ? `, set for ${tenant.entity}` : ""}.`
        : "No quota applies now."),
      place,
    ];
  });
}

dialog.addEventListener("close", () => {
  dialog.opened = dialog.shown = null;
  visit({ decision: "", tenant: "" });
  if (document.activeElement === document.body) document.getElementById("decisions-head").focus();
});
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
document.getElementById("dialog-close").addEventListener("click", () => dialog.close());
