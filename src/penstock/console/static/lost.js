// Tells when the console itself is gone, as long as that lasts. If it comes back and knows nobody any more, the page is
// loaded again: that leads to the log-in, and from there back here. What somebody writes is not thrown away for it.
const EVERY = 1000; // milliseconds
const FIRST = 5; // looks, until a page that has just been loaded should be connected
const AGAIN = 1; // looks that a connection may be gone for: on a busy machine it breaks, and is there again at once
let wasThere = false, missed = 0, since = "";

function say(text) {
  const banner = document.getElementById("pk-lost");
  if (!banner) return;
  banner.hidden = !text;
  if (banner.textContent !== text) banner.textContent = text;
}

async function isLoggedOut() {
  try {
    return (await fetch("/static/penstock.svg", { cache: "no-store", headers: { Accept: "image/svg+xml" } })).status === 401;
  } catch {
    return false; // it is still gone
  }
}

async function look() {
  const isThere = Boolean(window.socket?.connected);
  wasThere ||= isThere;
  missed = isThere ? 0 : missed + 1;
  const isLost = missed > (wasThere ? AGAIN : FIRST);
  document.body.classList.toggle("pk-is-lost", isLost);
  if (!isLost) {
    since = "";
    say("");
    return;
  }
  since ||= new Date().toISOString().slice(11, 19);
  if (!(await isLoggedOut())) say(`No connection to the console since ${since} UTC: what is shown is from before`);
  else if (!document.querySelector(".pk-editor")) location.reload();
  else say("The console was started again, and you are logged out: copy your draft, then load the page again");
}

async function follow() {
  await look();
  setTimeout(follow, EVERY);
}

follow();
