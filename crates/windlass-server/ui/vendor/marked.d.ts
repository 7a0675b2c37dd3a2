// What the UI uses of the library, as it uses it; written by hand.
export class Marked {
  constructor(options: {
    gfm?: boolean;
    breaks?: boolean;
    async?: boolean;
    renderer?: Record<string, (this: any, token: any) => string>;
  });
  parse(text: string): string;
  lexer(text: string): any[];
}
