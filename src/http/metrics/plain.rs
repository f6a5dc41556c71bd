//! OpenMetrics as the older text format of Prometheus, for readers that do not ask
//! for the newer one. They differ in what a counter is called where it is
//! described, and in the last line.

use std::collections::BTreeSet;

/// The content type of [`plain`].
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The same metrics in text format 0.0.4.
pub(super) fn plain(open: &str) -> String {
    let counters: BTreeSet<&str> = open
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut text = String::with_capacity(open.len() + 8 * 1024);
    for line in open.lines().filter(|line| *line != "# EOF") {
        let mut parts = line.splitn(4, ' ');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some("#"), Some(keyword), Some(name), Some(rest)) if counters.contains(name) => {
                text.extend(["# ", keyword, " ", name, "_total ", rest]);
            }
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_described_by_the_name_of_their_samples() {
        let open = "# HELP t_late Late ones.\n# TYPE t_late counter\nt_late_total{w=\"a b\"} 1\n\
                    # HELP t_bytes What it takes.\n# TYPE t_bytes gauge\nt_bytes 1.0\n# EOF\n";
        let expected = "# HELP t_late_total Late ones.\n# TYPE t_late_total counter\n\
                        t_late_total{w=\"a b\"} 1\n# HELP t_bytes What it takes.\n\
                        # TYPE t_bytes gauge\nt_bytes 1.0\n";
        assert_eq!(plain(open), expected);
    }
}
