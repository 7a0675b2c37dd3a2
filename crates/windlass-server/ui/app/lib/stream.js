// A thread's updates as server-sent events, over a connection that reconnects after a failure.

import { isAborted, problemOf, send, signedIn, wait } from "./api.js";

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 8000;
/**
 * The server sends a ping at least every 15 s: after three times that interval, the page treats the connection as dead.
 */
const SILENCE_MS = 45000;

/** @typedef {{type: string, [name: string]: any}} Update */

/**
 * Follows a stream from a position. Resolves if the caller stops it or the server ends the stream. Throws if the server
 * rejects the request.
 * @param {string} path below the API's base @param {string} from the stream starts after this position
 * @param {{told: (updates: Update[]) => void, connected?: (is: boolean) => void}} hear @param {AbortSignal} stop
 */
export async function follow(path, from, hear, stop) {
  let position = from;
  let pause = FIRST_WAIT_MS;
  while (!stop.aborted) {
    const attempt = new AbortController();
    const end = () => attempt.abort();
    stop.addEventListener("abort", end);
    let watchdog = setTimeout(end, SILENCE_MS);
    try {
      // The first connection requests a snapshot of the current reply, so that its text never appears to shrink.
      const backlog = position === from ? "snapshot" : "fragments";
      const answer = await send(`${path}?after=${encodeURIComponent(position)}&backlog=${backlog}`, {
        headers: { accept: "text/event-stream" },
        signal: attempt.signal,
      });
      if (answer.status === 204) return;
      if (!answer.ok || !answer.body) {
        const problem = await problemOf(answer);
        // Wait until the user has signed in again in a dialog, then reconnect.
        if (problem.status === 401) await signedIn(stop);
        else if (problem.status < 500 && problem.status !== 429) throw Object.assign(problem, { final: true });
        throw problem;
      }
      hear.connected?.(true);
      for await (const frames of framesOf(answer.body)) {
        clearTimeout(watchdog);
        watchdog = setTimeout(end, SILENCE_MS);
        pause = FIRST_WAIT_MS;
        for (const frame of frames) if (frame.id) position = frame.id;
        const updates = frames.flatMap((frame) => (frame.update ? [frame.update] : []));
        if (updates.length > 0) hear.told(updates);
        const stopping = updates.find((update) => update.type === "server.stopping");
        if (stopping) pause = stopping.retry_ms ?? pause;
      }
    } catch (error) {
      if (stop.aborted) return;
      if (error instanceof Error && "final" in error) throw error;
      if (!isAborted(error)) pause = Math.min(pause * 2, LONGEST_WAIT_MS);
    } finally {
      clearTimeout(watchdog);
      stop.removeEventListener("abort", end);
    }
    hear.connected?.(false);
    await wait(pause, stop).catch(() => {});
  }
}

/**
 * Yields the frames of a body, in batches as they arrive. A frame that cannot be parsed is logged and skipped.
 * @param {ReadableStream<Uint8Array>} body @returns {AsyncGenerator<{id: string, update: Update | null}[]>}
 */
async function* framesOf(body) {
  const reader = body.pipeThrough(/** @type {any} */ (new TextDecoderStream())).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    const blocks = rest.split("\n\n");
    rest = blocks.pop() ?? "";
    if (blocks.length > 0) yield blocks.map(frameOf);
  }
}

/** @param {string} block */
function frameOf(block) {
  let id = "";
  let data = "";
  for (const line of block.split("\n")) {
    if (line.startsWith("id: ")) id = line.slice(4);
    else if (line.startsWith("data: ")) data += line.slice(6);
  }
  try {
    return { id, update: data ? JSON.parse(data) : null };
  } catch (error) {
    console.warn("cannot parse a frame of the stream", error);
    return { id, update: null };
  }
}
