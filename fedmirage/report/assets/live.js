// A page that is served while runs are under way asks for new numbers and puts them in place.

const INTERVAL = 2000; // milliseconds between two questions
let shown = ""; // what the page shows, as text

function openedIn(part) {
  const folds = [...part.querySelectorAll("details")];
  return new Map(folds.map((one) => [one.querySelector("summary").textContent, one.open]));
}

// Plots move over into the new text, so that neither they nor the choices above them are lost.
function exchange(old, fresh) {
  const opened = openedIn(old);
  for (const place of fresh.querySelectorAll("[data-plot]")) {
    const kept = old.querySelector(`[data-plot="${place.dataset.plot}"]`);
    if (kept) place.replaceWith(kept);
  }
  for (const fold of fresh.querySelectorAll("details"))
    fold.open = opened.get(fold.querySelector("summary").textContent) ?? fold.open;
  old.replaceWith(fresh);
}

const hasText = (part) => [...part.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());

// Only what differs is exchanged: plots, what is folded open and the focus stay as they are.
function bringUpToDate(old, fresh) {
  if (old.dataset?.plot !== undefined || old.isEqualNode(fresh)) return;
  const alike = old.tagName === fresh.tagName && old.children.length === fresh.children.length;
  const parts = [...fresh.children]; // what is exchanged leaves `fresh`
  if (!alike || !parts.length || hasText(old) || hasText(fresh)) exchange(old, fresh);
  else [...old.children].forEach((child, place) => bringUpToDate(child, parts[place]));
}

function fillBody(body, html) {
  const fresh = body.cloneNode(false);
  fresh.innerHTML = html;
  bringUpToDate(body, fresh);
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
  let before = article.querySelector(".head");
  for (const section of sections) {
    let part = document.getElementById(section.id);
    if (!part) {
      part = makePart("section", section.id, section.title, "h3");
      before.after(part);
    }
    fillBody(part.querySelector(".body"), section.html);
    before = part;
  }
  const ids = new Set(sections.map((section) => section.id));
  for (const part of article.querySelectorAll("section")) if (!ids.has(part.id)) part.remove();
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
  main.classList.toggle("only", groups.length === 1);
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
    document.title = document.querySelector("h1").textContent = fresh.title;
    fillBody(document.getElementById("links"), fresh.html.contents);
    fillBody(document.getElementById("problems"), fresh.html.problems);
    placeGroups(fresh.html.groups);
    for (const [name, plot] of drawn) if (fresh.plots[name]) updateControls(fresh.plots[name], plot);
    drawAll();
    showCopyButtons();
  });
}

function say(id, text) {
  const place = document.getElementById(id);
  if (place.textContent !== text) place.textContent = text; // a screen reader hears of changes only
}

async function ask() {
  try {
    const answer = await fetch("data.json", { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.statusText);
    const fresh = await answer.json();
    const text = JSON.stringify({ ...fresh, made: "" });
    if (text !== shown) showUpdate(fresh);
    shown = text;
    say("made", fresh.made);
    say("live", fresh.going ? ", live" : ", no run is under way");
  } catch {
    say("live", ", the server has ended; this is the last state");
  }
  setTimeout(ask, INTERVAL);
}

function startLive() {
  if (document.documentElement.dataset.live === "true") ask();
}
