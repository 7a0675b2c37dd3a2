// An image of a conversation, loaded from the server. If the image cannot be shown, the page shows its name.

import { BASE, isAborted, send, signedIn } from "../lib/api.js";
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { size } from "../lib/words.js";

/** Media types that the page shows; the server sends no other types. */
const SHOWN = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/** An image or file block of a message or a result. @param {{thread: string, block: any}} props */
export function Media({ thread, block }) {
  const { media_type: type, size_bytes: bytes } = block.blob ?? {};
  const name = `${block.name ?? (block.kind === "image" ? "Image" : "File")}: ${type}, ${size(bytes ?? 0)}`;
  return block.kind === "image" && SHOWN.includes(type) ? html`<${Picture} path=${`/threads/${thread}/pictures/${block.blob.digest}`} name=${name} />` : html`<span class="quiet">${name}</span>`;
}

/** @param {{path: string, name: string}} props */
function Picture({ path, name }) {
  const [tries, setTries] = useState(0);
  const stop = useRef(/** @type {AbortController | null} */ (null));
  useEffect(() => {
    const own = (stop.current = new AbortController());
    return () => own.abort();
  }, []);
  const failed = async () => {
    if (tries > 0 || !stop.current) return setTries(2);
    const { signal } = stop.current;
    try {
      // A request by this script refreshes an expired session; the browser's request for an image does not.
      const answer = await send(path, { method: "HEAD", signal });
      // If the session has ended, the user signs in again in a dialog.
      if (answer.status === 401) await signedIn(signal);
      setTries(answer.ok || answer.status === 401 ? 1 : 2);
    } catch (error) {
      if (!isAborted(error)) setTries(2);
    }
  };
  if (tries > 1) return html`<span class="quiet">${name}</span>`;
  return html`<a class="pictured" href=${BASE + path} target="_blank" rel="noopener" title="Open full size"><img key=${tries} class="picture" src=${BASE + path} alt=${name} loading="lazy" onError=${failed} /></a>`;
}
