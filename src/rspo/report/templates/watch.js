// Asks the server now and then whether there is something new, and shows it.
"use strict";
(() => {
  const own = document.documentElement.dataset.version, note = document.getElementById("watched");
  const said = note.textContent;
  async function ask() {
    try {
      const answer = await fetch("version", { cache: "no-store" });
      if (answer.ok && (await answer.text()) !== own) return location.reload();
      note.textContent = answer.ok ? said : "The run folder cannot be read any more.";
    } catch {
      note.textContent = "`rspo watch` has ended: this page stays as it is.";
    }
    setTimeout(ask, 1500);
  }
  setTimeout(ask, 1500);
})();
