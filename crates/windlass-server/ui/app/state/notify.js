// Notices of the browser's own, to somebody who looks elsewhere: where they allowed that, and while the page is hidden.

import { go } from "../lib/route.js";

/** Whether somebody wants them. */
export const mayNotify = () => "Notification" in window && Notification.permission === "granted";

/**
 * Tells of something, and leads to it. Whoever looks at the page sees it there.
 * @param {{title: string, body: string, tag: string, address: string}} what `tag`: what is told once
 */
export function notify({ title, body, tag, address }) {
  if (!document.hidden || !mayNotify()) return;
  try {
    const notice = new Notification(title, { body, tag });
    notice.onclick = () => {
      window.focus();
      notice.close();
      go(address);
    };
  } catch {
    // Browsers of phones let only a service worker notify; the page says it all the same.
  }
}
