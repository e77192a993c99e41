// Shows a plot's values at once and on touch; without it the browser's own titles do the same, late.
(() => {
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  document.body.append(tip);
  for (const title of document.querySelectorAll("rect.value > title")) {
    title.parentNode.dataset.told = title.textContent;
    title.remove();
  }
  document.addEventListener("pointermove", (event) => {
    const told = event.target.dataset?.told;
    tip.hidden = told === undefined;
    if (tip.hidden) return;
    tip.textContent = told;
    const left = event.clientX + 14 + tip.offsetWidth > innerWidth ? event.clientX - 14 - tip.offsetWidth : event.clientX + 14;
    tip.style.left = Math.max(4, left) + "px";
    tip.style.top = Math.max(4, event.clientY - tip.offsetHeight - 10) + "px";
  });
  addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
})();
