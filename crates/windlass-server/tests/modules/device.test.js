// Device names from `User-Agent` headers.

import assert from "node:assert/strict";
import { test } from "node:test";

import { device } from "../../ui/app/lib/device.js";

const WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)";

test("browsers and systems have their product names", () => {
  const cases = [
    [`Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${WEBKIT} Chrome/128.0.0.0 Safari/537.36`, "Chrome 128 on Windows"],
    [`Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${WEBKIT} Chrome/128.0.0.0 Safari/537.36 Edg/128.0.2739.42`, "Edge 128 on Windows"],
    [`Mozilla/5.0 (Linux; Android 10; K) ${WEBKIT} Chrome/128.0.0.0 Mobile Safari/537.36`, "Chrome 128 on Android"],
    [`Mozilla/5.0 (X11; Linux x86_64) ${WEBKIT} HeadlessChrome/128.0.0.0 Safari/537.36`, "Headless Chrome 128 on Linux"],
    ["Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0", "Firefox 130 on Linux"],
    ["Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.6 Safari/605.1.15", "Safari 17 on macOS"],
    ["Mozilla/5.0 (iPhone; CPU iPhone OS 17_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.6 Mobile/15E148 Safari/604.1", "Safari 17 on iPhone"],
    ["Mozilla/5.0 (iPhone; CPU iPhone OS 17_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/128.0.1 Mobile/15E148 Safari/604.1", "Chrome 128 on iPhone"],
    ["Mozilla/5.0 (compatible; Odd on Linux)", "Unknown browser on Linux"],
    ["curl/8.5.0", "curl 8.5.0"],
  ];
  for (const [agent, wanted] of cases) assert.equal(device(agent), wanted, agent);
});

test("an empty or unrecognized header is an unknown device", () => {
  assert.deepEqual([null, undefined, "", "Mozilla/5.0", "?"].map(device), Array(5).fill("Unknown device"));
});
