//! schema-compiler
