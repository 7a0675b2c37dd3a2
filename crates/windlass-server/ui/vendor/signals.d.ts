// What the UI uses of the library, as it uses it; written by hand.
export interface Signal<T> {
  value: T;
  peek(): T;
  subscribe(hear: (value: T) => void): () => void;
}
export function signal<T>(begin: T): Signal<T>;
export function computed<T>(make: () => T): { readonly value: T; peek(): T };
export function effect(act: () => void): () => void;
export function batch<T>(act: () => T): T;
export function untracked<T>(act: () => T): T;
export function useSignal<T>(begin: T): Signal<T>;
export function useComputed<T>(make: () => T): { readonly value: T };
export function useSignalEffect(act: () => void): void;
