//! Names with wildcards: `*` is any run of characters, `?` is one.

/// Whether the whole of `text` matches.
pub fn matches(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut p, mut t) = (0, 0);
    // Where the last `*` was, and how much it has taken.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some('?') => (p, t) = (p + 1, t + 1),
            Some(wanted) if *wanted == text[t] => (p, t) = (p + 1, t + 1),
            _ => {
                let Some((at, taken)) = star else { return false };
                star = Some((at, taken + 1));
                (p, t) = (at + 1, taken + 1);
            }
        }
    }
    pattern[p..].iter().all(|rest| *rest == '*')
}

/// Whether a name has wildcards.
pub fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?'])
}

/// As [`matches()`], at little cost where `name` has no wildcards.
pub fn is_of(name: &str, text: &str) -> bool {
    name == text || (is_pattern(name) && matches(name, text))
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_is_any_run_and_a_question_mark_is_one() {
        for (pattern, text) in [
            ("*", ""),
            ("*", "pump-7"),
            ("pump-*", "pump-7"),
            ("pump-?", "pump-7"),
            ("*-*", "pump-7"),
            ("*7", "pump-77"),
            ("a*b*c", "axxbyybzzc"),
            ("Öl?", "Öle"),
            ("", ""),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in
            [("pump-*", "Pump-7"), ("pump-?", "pump-"), ("?", ""), ("a*b", "ac"), ("", "a")]
        {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }
}
