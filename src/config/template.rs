//! The braces of templates: `{measurement}/{tag:host}`, `hall/{1}`.

/// What a template is put together of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// Text as it stands; never empty.
    Text(&'a str),
    /// What stands between two braces.
    Key(&'a str),
}

/// The pieces of a template, in their order.
///
/// # Errors
/// A brace without its partner.
pub(super) fn pieces(template: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some(at) = rest.find(['{', '}']) {
        let inside = rest[at..].strip_prefix('{').and_then(|inside| inside.split_once('}'));
        let (key, after) = inside.ok_or("has a brace without its partner")?;
        if at > 0 {
            pieces.push(Piece::Text(&rest[..at]));
        }
        pieces.push(Piece::Key(key));
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_part_a_template() {
        let (text, key) = (Piece::Text, Piece::Key);
        assert_eq!(pieces(""), Ok(vec![]));
        assert_eq!(pieces("a/{b}{}c"), Ok(vec![text("a/"), key("b"), key(""), text("c")]));
        assert_eq!(pieces("{{b}"), Ok(vec![key("{b")]));
        for lone in ["a{b", "a}b", "{a}}"] {
            assert_eq!(pieces(lone), Err("has a brace without its partner".to_owned()), "{lone}");
        }
    }
}
