// Starts everything; without the plots, the tables remain.

function startCopying() {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("button.copy");
    if (!button) return;
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  showCopyButtons();
}

function showCopyButtons() {
  document.querySelectorAll("button.copy").forEach((button) => { button.hidden = false; });
}

function startPrinting() {
  const redraw = (now) => { printing = now; drawAll(); };
  window.addEventListener("beforeprint", () => redraw(true));
  window.addEventListener("afterprint", () => redraw(false));
}

async function start() {
  const articles = document.querySelectorAll("article");
  document.getElementById("main").classList.toggle("only", articles.length === 1);
  if (window.innerWidth < 1088) document.querySelector("nav details").open = false;
  startTheme();
  startCopying();
  addPlots(document);
  articles.forEach(addLegend);
  try {
    await loadPlotly();
    for (const name of drawn.keys()) {
      draw(name);
      await new Promise((resume) => setTimeout(resume)); // the page stays responsive meanwhile
    }
    startPrinting();
  } catch (error) {
    const said = document.createElement("p");
    said.className = "remarks";
    said.textContent = `The plots cannot be drawn in this browser (${error.message}). Their numbers are in the tables.`;
    document.getElementById("main").prepend(said);
  }
  document.documentElement.dataset.ready = "true";
  startLive();
}

start();
