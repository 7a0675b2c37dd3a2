//! A document reader for the tests of the library.
//!
//! A program that embeds the library is its own reader, or names a program like this one.

fn main() {
    windlass::reader::reader_main();
}
