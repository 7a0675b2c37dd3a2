// What the UI uses of the library, as it uses it; written by hand.
type Ref<T> = { current: T };
export function useState<T>(begin: T | (() => T)): [T, (next: T | ((before: T) => T)) => void];
export function useRef<T>(begin: T): Ref<T>;
export function useEffect(act: () => void | (() => void), on?: unknown[]): void;
export function useLayoutEffect(act: () => void | (() => void), on?: unknown[]): void;
export function useMemo<T>(make: () => T, on: unknown[]): T;
export function useCallback<T>(what: T, on: unknown[]): T;
export function useContext(context: any): any;
export function useId(): string;
