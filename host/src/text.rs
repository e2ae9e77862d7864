//! Texts that somebody else has made, on their way to people.

/// The most of such a text that is shown, in characters.
const LONGEST: usize = 400;

/// The text with all escaped that does not print: one line, in the order in
/// which it is written.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' | '\'' | '\\' => line.push(character),
            character => line.extend(character.escape_debug()),
        }
    }
    line
}

/// The text, cut where it is long.
pub(crate) fn cut(text: &str) -> String {
    cut_at(text, LONGEST)
}

/// The text, cut where it has more characters.
pub(crate) fn cut_at(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, cut, cut_at, one_line};

    #[test]
    fn a_line_stays_one() {
        assert_eq!(one_line("a\r\n\u{1b}[1m\u{202e}\"é\""), r#"a\r\n\u{1b}[1m\u{202e}"é""#);
    }

    #[test]
    fn what_is_long_is_cut() {
        assert_eq!(cut_at("äöü", 3), "äöü");
        assert_eq!(cut_at("äöü", 2), "äö… (6 bytes)");
        assert_eq!(cut(&"a".repeat(LONGEST)), "a".repeat(LONGEST));
    }
}
