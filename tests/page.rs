//! The page at `/` in a real browser, beside a real agent and a broker that can be
//! cut off: what people see is what the API says.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "what fails here fails a test")]

mod support;

#[path = "page/browser.rs"]
mod browser;
#[path = "page/care.rs"]
mod care;
#[path = "page/outage.rs"]
mod outage;
#[path = "page/picture.rs"]
mod picture;
#[path = "page/plant.rs"]
mod plant;
#[path = "page/seen.rs"]
mod seen;
#[path = "page/signs.rs"]
mod signs;
#[path = "page/token.rs"]
mod token;
