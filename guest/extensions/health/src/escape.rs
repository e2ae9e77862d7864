//! Escapes for texts from clients, chains or the host, so that none of them ends a line
//! or changes its reading direction.

/// Escapes the backslashes and the characters of a sentence that are not printable.
pub(crate) fn sentence(text: &str) -> String {
    escaped(text, |character| matches!(character, '"' | '\''))
}

/// Escapes a name as one word: also its spaces and double quotes. Different names give
/// different words, because backslashes are escaped.
pub(crate) fn word(text: &str) -> String {
    escaped(text, |character| character == '\'').replace(' ', "\\u{20}")
}

fn escaped(text: &str, stays: fn(char) -> bool) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        if stays(character) {
            line.push(character);
        } else {
            line.extend(character.escape_debug());
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::{sentence, word};

    #[test]
    fn names_stay_on_one_line() {
        let text = "é it's\r\n\0\u{1b}[1m \u{85}\u{2028}\u{202e}\"\\";
        assert_eq!(sentence(text), r#"é it's\r\n\0\u{1b}[1m \u{85}\u{2028}\u{202e}"\\"#);
        assert_eq!(word(text), r#"é\u{20}it's\r\n\0\u{1b}[1m\u{20}\u{85}\u{2028}\u{202e}\"\\"#);
    }

    #[test]
    fn different_names_stay_different() {
        assert_eq!(word("a b"), r"a\u{20}b");
        assert_eq!(word(r"a\u{20}b"), r"a\\u{20}b");
        assert_eq!(word("ibc-0"), "ibc-0");
    }
}
