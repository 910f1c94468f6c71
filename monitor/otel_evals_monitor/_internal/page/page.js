// Keeps an open page up to date. Everything works without it, but for reloading by hand and times in UTC.
"use strict";

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
const cookie = `otel_evals_zone=${zone}`;
if (!document.cookie.split("; ").includes(cookie)) {
  const first = !document.cookie.includes("otel_evals_zone=") && zone === "UTC";
  document.cookie = `${cookie}; path=/; max-age=31536000; samesite=strict`;
  // Times are rendered on the server, which knows the zone from now on.
  if (!first && document.cookie.split("; ").includes(cookie)) location.reload();
}

const chip = document.getElementById("live");
let seen = null, waiting = null;

function busy() {
  const field = document.activeElement;
  const typing = field && field.matches("input, select, textarea, summary") && field.closest("main");
  return typing || String(document.getSelection()) !== "" || document.querySelector("main form details[open]");
}

async function refresh() {
  waiting = null;
  if (busy()) {
    waiting = setTimeout(refresh, 2000);
    return;
  }
  const open = [...document.querySelectorAll("main details")].map((each) => each.open);
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!answer.ok || busy()) return;
  const next = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of ["main", "nav"]) document.querySelector(part).replaceWith(next.querySelector(part));
  const parts = document.querySelectorAll("main details");
  if (parts.length === open.length) parts.forEach((each, i) => { each.open = open[i]; });
}

async function look() {
  if (!chip || document.hidden) return;
  const answer = await fetch("/pulse").catch(() => null);
  chip.classList.toggle("on", Boolean(answer && answer.ok));
  if (!answer || !answer.ok) return;
  const pulse = await answer.json();
  chip.querySelector("b").textContent = pulse.hour === 1 ? "1 run" : `${pulse.hour} runs`;
  const now = JSON.stringify([pulse.newest, pulse.alarms]);
  if (seen !== null && seen !== now && document.body.dataset.live && !waiting) waiting = setTimeout(refresh, 200);
  seen = now;
}

document.addEventListener("visibilitychange", look);
setInterval(look, 3000);
look();
