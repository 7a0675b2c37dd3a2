// A picture of a conversation, as the server keeps it; its name where it cannot be shown.

import { BASE, isAborted, send, signedIn } from "../lib/api.js";
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { size } from "../lib/words.js";

/** What a page shows itself; the server sends no other kind. */
const SHOWN = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/** A block of a message or a result that is no text. @param {{thread: string, block: any}} props */
export function Media({ thread, block }) {
  const { media_type: type, size_bytes: bytes } = block.blob ?? {};
  const name = `${block.name ?? (block.kind === "image" ? "A picture" : "A file")}: ${type}, ${size(bytes ?? 0)}`;
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
      // A session that has run out is made anew by a request of the page's own; a picture's is not.
      const answer = await send(path, { method: "HEAD", signal });
      // Where it is over, whoever looks signs in above the page.
      if (answer.status === 401) await signedIn(signal);
      setTries(answer.ok || answer.status === 401 ? 1 : 2);
    } catch (error) {
      if (!isAborted(error)) setTries(2);
    }
  };
  if (tries > 1) return html`<span class="quiet">${name}</span>`;
  return html`<a class="pictured" href=${BASE + path} target="_blank" rel="noopener" title="Opens it whole"><img key=${tries} class="picture" src=${BASE + path} alt=${name} loading="lazy" onError=${failed} /></a>`;
}
