// What the UI uses of the library, as it uses it; written by hand.
declare function createDOMPurify(window: Window): {
  sanitize(text: string, options: object): any;
  addHook(name: string, hear: (node: Element) => void): void;
};
export default createDOMPurify;
