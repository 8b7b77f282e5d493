// What the panel does beyond plain pages. Everything here is an extra: without it every page and form still works.
"use strict";

const root = document.documentElement;
root.classList.add("js");

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** Shows times in the reader's zone; the UTC text the server wrote becomes the title. */
function localTimes(scope) {
  for (const time of scope.querySelectorAll("time[data-form]:not([data-local])")) {
    time.dataset.local = "";
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    if (time.dataset.form === "ago") {
      const local = at.toLocaleString(root.lang, { dateStyle: "medium", timeStyle: "medium" });
      time.title = `${local} (${zone}) = ${time.title}`;
      continue;
    }
    if (!time.title) time.title = time.textContent.trim();
    const day = { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
    // The year is in the title.
    if (at.getFullYear() !== new Date().getFullYear()) day.year = "numeric";
    if (time.dataset.form === "seconds") day.second = "2-digit";
    time.textContent = at.toLocaleString(root.lang, day);
  }
}

/** Buttons with data-copy put the text of the element they name on the clipboard. */
async function copy(button) {
  const source = document.getElementById(button.dataset.copy);
  if (!source) return;
  const text = "value" in source ? source.value : source.textContent;
  const label = button.querySelector("[data-label]") || button;
  const before = label.textContent;
  try {
    await navigator.clipboard.writeText(text);
    label.textContent = button.dataset.done;
  } catch {
    if ("select" in source) source.select();
    label.textContent = button.dataset.failed;
  }
  announce(label.textContent);
  setTimeout(() => { label.textContent = before; }, 2000);
}

function announce(text) {
  const live = document.getElementById("announce");
  if (live) live.textContent = text;
}

/** Regions with data-live are filled from a stream of server-sent events, until they are paused. */
function live(region) {
  const pulse = document.getElementById(region.dataset.pulse);
  const button = document.getElementById(region.dataset.pause);
  const most = Number(region.dataset.most || 0);
  let source = null;
  const show = (on) => {
    if (pulse) {
      pulse.classList.toggle("on", on);
      pulse.textContent = on ? pulse.dataset.on : pulse.dataset.off;
    }
    if (button) button.textContent = source ? button.dataset.pauseLabel : button.dataset.resumeLabel;
  };
  const start = () => {
    source = new EventSource(region.dataset.live);
    source.onopen = () => show(true);
    source.onerror = () => show(false);
    source.onmessage = (message) => {
      if (region.dataset.mode === "prepend") {
        region.insertAdjacentHTML("afterbegin", message.data);
        while (most && region.children.length > most) region.lastElementChild.remove();
        const empty = document.getElementById(region.dataset.empty);
        if (empty) empty.hidden = true;
      } else if (!region.contains(document.activeElement)) {
        // Whoever is on a link in it must not lose it.
        region.innerHTML = message.data;
      }
      localTimes(region);
      scrollable(region);
    };
  };
  const stop = () => { if (source) source.close(); source = null; show(false); };
  if (button) {
    button.hidden = false;
    button.addEventListener("click", () => (source ? stop() : start()));
  }
  document.addEventListener("visibilitychange", () => {
    if (document.hidden && source) { stop(); region.dataset.resume = ""; }
    else if (!document.hidden && "resume" in region.dataset) { delete region.dataset.resume; start(); }
  });
  window.addEventListener("pagehide", () => source && source.close());
  start();
}

/** `g t` goes to the tenants, `/` to the search, `?` shows what keys there are. */
const places = {};
let waiting = 0;
function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, textarea, [contenteditable]")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (waiting && places[event.key]) {
    event.preventDefault();
    location.href = places[event.key];
    return;
  }
  clearTimeout(waiting);
  waiting = 0;
  if (event.key === "g") {
    waiting = setTimeout(() => { waiting = 0; }, 1200);
  } else if (event.key === "/") {
    const search = document.querySelector("[data-search]");
    if (search) { event.preventDefault(); search.focus(); search.select(); }
  } else if (event.key === "?") {
    const help = document.getElementById("help");
    if (help && !help.open) help.showModal();
  }
}

/** The button of a form that deletes is ready when the name has been typed. */
function confirmation(input) {
  const button = input.form.querySelector("[data-guarded]");
  const check = () => { if (button) button.disabled = input.value !== input.dataset.confirm; };
  input.addEventListener("input", check);
  check();
}

/** What scrolls can be scrolled by keys. */
function scrollable(scope) {
  for (const box of scope.querySelectorAll(".table-wrap, .chart-wrap")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}

function enhance(scope) {
  localTimes(scope);
  scrollable(scope);
  scope.querySelectorAll("[data-confirm]").forEach(confirmation);
}

document.addEventListener("DOMContentLoaded", () => {
  enhance(document);
  document.querySelectorAll("[data-key]").forEach((link) => { places[link.dataset.key] = link.href; });
  document.querySelectorAll("[data-live]").forEach(live);
  document.addEventListener("keydown", keys);
  document.addEventListener("click", (event) => {
    const copied = event.target.closest("[data-copy]");
    if (copied) { event.preventDefault(); copy(copied); }
    const opened = event.target.closest("[data-open]");
    if (opened) { event.preventDefault(); document.getElementById(opened.dataset.open).showModal(); }
    const shown = event.target.closest("[data-fill]");
    if (shown) {
      const input = document.getElementById(shown.dataset.fill);
      input.value = shown.dataset.value;
      input.dispatchEvent(new Event("input", { bubbles: true }));
      input.focus();
    }
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
  });
  document.addEventListener("htmx:after:swap", () => enhance(document));
  window.addEventListener("resize", () => scrollable(document));
});
