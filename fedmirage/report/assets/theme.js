// Light and dark: the reader's system decides until the button is used.

const darkSystem = window.matchMedia("(prefers-color-scheme: dark)");
const probe = document.createElement("span");

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : darkSystem.matches;
}

// What a variable of the style sheet stands for now; a computed colour is resolved, a variable not.
function colour(name) {
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}

function faint(name, share) {
  return colour(name).replace("rgb(", "rgba(").replace(")", `, ${share})`);
}

function nameTheme() {
  document.getElementById("theme").textContent = isDark() ? "Light" : "Dark";
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  nameTheme();
  drawAll();
}

function startTheme() {
  probe.hidden = true;
  document.body.append(probe);
  const button = document.getElementById("theme");
  button.hidden = false;
  button.addEventListener("click", () => setTheme(isDark() ? "light" : "dark"));
  darkSystem.addEventListener("change", () => { nameTheme(); drawAll(); });
  nameTheme();
}
