//! The part of a page that is generated: it stands between two lines.

use anyhow::{Context, Result};

/// The page with another text between the first `begin` and the `end` after it.
pub(crate) fn with_part(page: &str, (begin, end): (&str, &str), text: &str) -> Result<String> {
    let parts = page.split_once(begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(end)?;
        Some((before, after))
    });
    let (before, after) =
        parts.with_context(|| format!("the page lacks the lines {begin}and {end}: write them"))?;
    Ok(format!("{before}{begin}{text}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_is_replaced_and_the_rest_of_the_page_stays() {
        let lines = ("<begin>\n", "<end>\n");
        let page = "before\n<begin>\nold\n<end>\nafter\n";
        let new = with_part(page, lines, "new\n").unwrap();
        assert_eq!(new, "before\n<begin>\nnew\n<end>\nafter\n");
        assert!(with_part("nothing of the kind", lines, "new\n").is_err());
    }
}
