// A page that is served while runs are under way asks for new numbers and puts them in place.

const INTERVAL = 2000; // milliseconds between two questions
const written = new Map(); // by id: the HTML that a section shows

function keepOpened(body) {
  return [...body.querySelectorAll("details")].map((one) => one.open);
}

// Plots move over into the new text, so that neither they nor the choices above them are lost.
function fillBody(body, html) {
  const fresh = document.createElement("template");
  fresh.innerHTML = html;
  const opened = keepOpened(body);
  for (const place of fresh.content.querySelectorAll("[data-plot]")) {
    const old = body.querySelector(`[data-plot="${place.dataset.plot}"]`);
    if (old) place.replaceWith(old);
  }
  body.replaceChildren(fresh.content);
  const folds = [...body.querySelectorAll("details")];
  if (folds.length === opened.length) folds.forEach((one, number) => { one.open = opened[number]; });
}

function makePart(kind, id, title, level) {
  const part = document.createElement(kind), heading = document.createElement(level), body = document.createElement("div");
  part.id = id;
  heading.id = `${id}-title`;
  heading.textContent = title;
  part.setAttribute("aria-labelledby", heading.id);
  body.className = kind === "article" ? "head" : "body";
  part.append(heading, body);
  return part;
}

function placeSections(article, sections) {
  for (const section of sections) {
    let part = document.getElementById(section.id);
    if (!part) part = makePart("section", section.id, section.title, "h3");
    article.append(part); // in the order of the answer
    if (written.get(section.id) !== section.html) {
      fillBody(part.querySelector(".body"), section.html);
      written.set(section.id, section.html);
    }
  }
}

function placeGroups(groups) {
  const main = document.getElementById("main");
  for (const group of groups) {
    let article = document.getElementById(group.id);
    if (!article) {
      article = makePart("article", group.id, group.title, "h2");
      main.append(article);
    }
    fillBody(article.querySelector(".head"), group.head);
    placeSections(article, group.sections);
    addPlots(article);
    addLegend(article);
  }
}

// The first section in sight stays where it is, whatever grows above it.
function holdStill(change) {
  const anchor = [...document.querySelectorAll("section")].find((one) => one.getBoundingClientRect().bottom > 0);
  const before = anchor?.getBoundingClientRect().top, focused = document.activeElement;
  change();
  if (focused?.isConnected && focused !== document.activeElement) focused.focus({ preventScroll: true });
  if (anchor?.isConnected && window.scrollY > 0) window.scrollBy(0, anchor.getBoundingClientRect().top - before);
}

function showUpdate(fresh) {
  report = fresh;
  holdStill(() => {
    document.getElementById("problems").innerHTML = fresh.html.problems;
    placeGroups(fresh.html.groups);
    for (const [name, plot] of drawn) if (fresh.plots[name]) updateControls(fresh.plots[name], plot);
    drawAll();
  });
  document.getElementById("made").textContent = fresh.made;
}

async function ask() {
  const state = document.getElementById("live");
  try {
    const answer = await fetch("data.json", { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.statusText);
    const fresh = await answer.json();
    if (JSON.stringify(fresh.plots) !== JSON.stringify(report.plots) || fresh.going !== report.going || !report.html) showUpdate(fresh);
    state.textContent = fresh.going ? ", live" : ", no run is under way";
  } catch {
    state.textContent = ", the server has ended; this is the last state";
  }
  setTimeout(ask, INTERVAL);
}

function startLive() {
  if (document.documentElement.dataset.live === "true") ask();
}
