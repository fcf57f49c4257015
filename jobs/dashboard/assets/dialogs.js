// The dialogs: the explanation of a decision, and the decisions of a tenant.

const dialog = document.getElementById("dialog");
const dialogTitle = document.getElementById("dialog-title");

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

function openTenant(key) {
  openDialog("Decisions of a tenant", async () => {
    const { tenant, decisions: found } = await decisionsOf(key);
    if (tenant === null) return [sentence(`No tenant with the bucket ${key} has sent requests ${IN_PERIOD}.`)];
    setText(dialogTitle, `Decisions of ${tenant.name}`);
    const place = element("div", { id: "tenant-decisions" });
    put("dialog-body", place);  // the table finds its element in the page
    const made = makeDecisions("tenant-decisions", tenant.user === "*", tenant.client === "*");
    made.show(found, (each) => each.id, SAVED ? "None of the decisions in this page." : "Its decisions are no longer stored.");
    return [
      sentence(tenant.level
        ? `Quota: ${rate(tenant.level.rate)}, at most ${rounded(tenant.level.burst)} at once` +
          `${tenant.entity ? `, set for ${tenant.entity}` : ""}.`
        : SAVED ? "No quota applied at the end of the period." : "No quota applies now."),
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
