// Before anything is drawn: light or dark, as it was chosen the last time, or as the system has it.

(() => {
  let chosen = null;
  try { chosen = localStorage.getItem("kohort-theme"); } catch { /* private windows */ }
  document.documentElement.dataset.theme = chosen || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
})();
