// The browser and the system of a session, as people call them. What a browser says of itself proves nothing: it only helps
// to find one's own session in a list.

/** Browsers by a word that only they use; those that pretend to be another one come before it. @type {[RegExp, string][]} */
const BROWSERS = [
  [/\bEdgA?(?:iOS)?\/(\d+)/, "Edge"],
  [/\bOPR\/(\d+)/, "Opera"],
  [/\bSamsungBrowser\/(\d+)/, "Samsung Internet"],
  [/\b(?:Firefox|FxiOS)\/(\d+)/, "Firefox"],
  [/\bHeadlessChrome\/(\d+)/, "Chrome without a window"],
  [/\b(?:Chrome|CriOS)\/(\d+)/, "Chrome"],
  [/\bChromium\/(\d+)/, "Chromium"],
  [/\bVersion\/(\d+)[\d.]* (?:Mobile\/\S+ )?Safari\//, "Safari"],
];
/** Systems; phones also name the system that theirs is made of. @type {[RegExp, string][]} */
const SYSTEMS = [
  [/\biPhone\b/, "iPhone"],
  [/\biPad\b/, "iPad"],
  [/\bAndroid\b/, "Android"],
  [/\bCrOS\b/, "ChromeOS"],
  [/\bWindows\b/, "Windows"],
  [/\bMac OS X\b|\bMacintosh\b/, "macOS"],
  [/\bLinux\b|\bX11\b/, "Linux"],
];

/** A program that is no browser names itself first, such as `curl/8.5.0`. */
const PROGRAM = /^([\w.-]{1,40})\/v?([\w.-]{1,20})/;

/** Where a session is, by the `User-Agent` of its requests. @param {string | null | undefined} agent */
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
