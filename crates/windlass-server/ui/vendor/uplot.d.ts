// The library as the UI uses it; written by hand.
declare const library: any;
export default library;
