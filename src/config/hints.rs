//! What somebody meant who wrote a word that is not known.

/// Keys that others use for what is written in another way here: the key, the one of
/// ours that the section must have, and what to do.
const MEANT: [(&str, &str, &str); 17] = [
    ("port", "address", "write it in address, like \"10.0.0.10:502\""),
    ("port", "url", "write it in url, like \"mqtt://broker.example:1883\""),
    ("port", "listen", "write it in listen, like \"127.0.0.1:9180\""),
    ("host", "address", "write it in address, like \"10.0.0.10:502\""),
    ("host", "url", "write it in url, like \"mqtt://broker.example:1883\""),
    ("broker", "url", "write it in url, like \"mqtt://broker.example:1883\""),
    ("from_start", "from", "write from = \"start\" or from = \"end\""),
    ("password", "password_file", "write it into a file and name that in password_file"),
    ("user", "username", "did you mean username?"),
    ("token", "token_file", "write it into a file and name that in token_file"),
    ("interval", "poll", "did you mean poll?"),
    ("unit", "unit_id", "the device is unit_id; the unit of a value is a key of its register"),
    ("slave", "unit_id", "did you mean unit_id?"),
    ("slave_id", "unit_id", "did you mean unit_id?"),
    ("qos", "inflight_max", "leave it out: it is 1, always"),
    ("lateness", "allowed_lateness", "did you mean allowed_lateness, or bound?"),
    ("source", "sources", "write sources = [\"NAME\"]"),
];

/// What to do about an unknown key of a section that has these.
pub(super) fn of_key(name: &str, known: &[&str]) -> String {
    let meant = MEANT.iter().find(|(other, ours, _)| *other == name && known.contains(ours));
    match (meant, near(name, known)) {
        (Some((_, _, fix)), _) => (*fix).to_owned(),
        (None, Some(known)) => format!("did you mean {known}?"),
        (None, None) => format!("known here: {}", known.join(", ")),
    }
}

/// The known word that is nearest to one that was written, if any is near enough to be
/// meant: short words are near to everything.
pub(super) fn near<'a>(written: &str, known: &[&'a str]) -> Option<&'a str> {
    let most = |known: &str| match known.len().min(written.len()) {
        0..=5 => 1,
        length => 1 + length / 3,
    };
    let far = known.iter().map(|known| (strsim::damerau_levenshtein(known, written), *known));
    far.filter(|(far, known)| *far <= most(known)).min().map(|(_, known)| known)
}

#[cfg(test)]
#[path = "hints_tests.rs"]
mod tests;
