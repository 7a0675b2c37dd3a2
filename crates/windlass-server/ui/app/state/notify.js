// Browser notifications, if the user has allowed them and the page is hidden.

import { go } from "../lib/route.js";

export const mayNotify = () => "Notification" in window && Notification.permission === "granted";

/**
 * Shows a notification that opens a page. If the page is visible, it shows the news itself, and no notification is
 * sent.
 * @param {{title: string, body: string, tag: string, address: string}} what `tag`: notifications with the same tag replace each other
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
    // Mobile browsers allow notifications only from a service worker. The user sees the news on the page.
  }
}
