// The name of a session's browser and system, from its `User-Agent`. The header is untrusted: it only helps users to
// recognize their sessions in a list.

/**
 * Patterns of browsers. A browser precedes any browser whose token its `User-Agent` also includes.
 * @type {[RegExp, string][]}
 */
const BROWSERS = [
  [/\bEdgA?(?:iOS)?\/(\d+)/, "Edge"],
  [/\bOPR\/(\d+)/, "Opera"],
  [/\bSamsungBrowser\/(\d+)/, "Samsung Internet"],
  [/\b(?:Firefox|FxiOS)\/(\d+)/, "Firefox"],
  [/\bHeadlessChrome\/(\d+)/, "Headless Chrome"],
  [/\b(?:Chrome|CriOS)\/(\d+)/, "Chrome"],
  [/\bChromium\/(\d+)/, "Chromium"],
  [/\bVersion\/(\d+)[\d.]* (?:Mobile\/\S+ )?Safari\//, "Safari"],
];
/** Patterns of systems. Phones come first because they also name their base system. @type {[RegExp, string][]} */
const SYSTEMS = [
  [/\biPhone\b/, "iPhone"],
  [/\biPad\b/, "iPad"],
  [/\bAndroid\b/, "Android"],
  [/\bCrOS\b/, "ChromeOS"],
  [/\bWindows\b/, "Windows"],
  [/\bMac OS X\b|\bMacintosh\b/, "macOS"],
  [/\bLinux\b|\bX11\b/, "Linux"],
];

/** The leading product token of a program that is not a browser, such as `curl/8.5.0`. */
const PROGRAM = /^([\w.-]{1,40})\/v?([\w.-]{1,20})/;

/** Names the device of a session by the `User-Agent` of its requests. @param {string | null | undefined} agent */
export function device(agent) {
  if (!agent) return "Unknown device";
  const system = SYSTEMS.find(([mark]) => mark.test(agent))?.[1];
  for (const [mark, name] of BROWSERS) {
    const version = mark.exec(agent)?.[1];
    if (version) return system ? `${name} ${version} on ${system}` : `${name} ${version}`;
  }
  const [, program, version] = /^Mozilla\//.test(agent) ? [] : (PROGRAM.exec(agent) ?? []);
  if (program) return system ? `${program} ${version} on ${system}` : `${program} ${version}`;
  return system ? `Unknown browser on ${system}` : "Unknown device";
}
