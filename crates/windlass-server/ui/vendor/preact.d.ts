// What the UI uses of the library, as it uses it; written by hand.
export type VNode = any;
export const h: (...parts: any[]) => VNode;
export const render: (node: VNode, into: Element) => void;
export const Fragment: any;
export function createContext<T>(usual: T): any;
