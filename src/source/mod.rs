pub mod lines;
pub mod parse;
