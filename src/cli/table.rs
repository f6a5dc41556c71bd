//! Columns that stand under each other.

use super::terminal::{Mark, Paint};

/// What stands in one place of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    text: String,
    mark: Option<Mark>,
}

impl Cell {
    /// As it is.
    pub(super) fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), mark: None }
    }

    /// To be seen at once.
    pub(super) fn marked(mark: Mark, text: impl Into<String>) -> Self {
        Self { text: text.into(), mark: Some(mark) }
    }
}

/// Rows of as many cells as the head has: names to the left, numbers to the right,
/// each line after `indent`.
pub(super) fn table<const N: usize>(
    indent: &str,
    head: [&str; N],
    rows: &[[Cell; N]],
    paint: Paint,
) -> Vec<String> {
    let head = head.map(|name| Cell::marked(Mark::Faint, name));
    let width = |column: usize| {
        let widths = rows.iter().chain([&head]).map(|row| row[column].text.chars().count());
        widths.max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    [&head].into_iter().chain(rows).map(|row| line(indent, row, &widths, paint)).collect()
}

fn line(indent: &str, row: &[Cell], widths: &[usize], paint: Paint) -> String {
    let mut out = indent.to_owned();
    for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
        // Padded before it is marked: marks have no width.
        let text = if column == 0 {
            format!("{:<width$}", cell.text)
        } else {
            out += "  ";
            format!("{:>width$}", cell.text)
        };
        out += &cell.mark.map_or(text.clone(), |mark| paint.mark(mark, &text));
    }
    out.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [
            [Cell::plain("press-line"), Cell::plain("1,000")],
            [Cell::plain("é"), Cell::marked(Mark::Bad, "7")],
        ];
        let expected = ["  name          sum", "  press-line  1,000", "  é               7"];
        assert_eq!(table("  ", ["name", "sum"], &rows, Paint::OFF), expected);
        let coloured = table("", ["name", "sum"], &rows, Paint::ON);
        assert_eq!(coloured[2], "é           \x1b[31m    7\x1b[0m");
    }
}
