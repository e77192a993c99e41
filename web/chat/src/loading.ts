// Says why the page does not work when one of its scripts does not come. Part of the small script that is
// loaded first, so that somebody is there to say it.

export function watchLoading(): void {
  const failed = async (event: Event) => {
    if (!(event.target instanceof HTMLScriptElement)) return;
    const { src } = event.target;
    const text = `Cannot load ${new URL(src).pathname}: ${await reason(src)}.`;
    if (document.readyState === "loading")
      document.addEventListener("DOMContentLoaded", () => show(text));
    else show(text);
  };
  window.addEventListener("error", (event) => void failed(event), true);
}

async function reason(src: string): Promise<string> {
  try {
    const { ok, status, headers } = await fetch(src, { cache: "no-store" });
    if (ok) return "it comes now, reload the page";
    const seconds = headers.get("retry-after");
    const later = seconds === null ? "" : ` and asks to come back in ${seconds} s`;
    return `the server answers ${status}${later}`;
  } catch {
    return "the server cannot be reached";
  }
}

function show(text: string): void {
  const at = (id: string) => document.getElementById(id);
  const [notice, button, state] = [at("notice"), at("retry-now"), at("link-state")];
  at("notice-text")?.replaceChildren(text);
  state?.replaceChildren("Offline");
  state?.setAttribute("data-phase", "waiting");
  if (notice) notice.hidden = false;
  if (!button) return;
  button.textContent = "Reload";
  button.onclick = () => location.reload();
}
