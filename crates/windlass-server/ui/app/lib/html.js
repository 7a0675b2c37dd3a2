// The rendering API of all views: tagged templates, components, hooks and signals.

import htm from "../../vendor/htm.js";
import { h } from "../../vendor/preact.js";

export { createContext, Fragment, render } from "../../vendor/preact.js";
export { useCallback, useContext, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "../../vendor/hooks.js";
export { batch, computed, effect, signal, untracked, useComputed, useSignal, useSignalEffect } from "../../vendor/signals.js";

export const html = htm.bind(h);

/** Joins class names and skips falsy values. @param {...(string|false|null|undefined)} names */
export const names = (...names) => names.filter(Boolean).join(" ");
