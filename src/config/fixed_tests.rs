use super::*;
use std::path::Path;

const OLD: &str = "[gateway]\nid = \"gw\"\ndata_dir = \"/d\"\n[[uplink]]\nurl = \"mqtt://a:1\"\n\
    [[source]]\nname = \"in\"\ntype = \"listen\"\naddress = \"127.0.0.1:7000\"\n\
    [[window]]\nname = \"w\"\nentity = \"*\"\nproperty = \"p\"\nkind = \"tumbling\"\nsize = \"10s\"\n";

fn config(text: &str) -> Config {
    Config::parse(text, Path::new("t.toml")).unwrap()
}

/// What is refused when the file becomes `next`.
fn refused(old: &str, next: &str) -> Vec<String> {
    let problems = config(old).fixed_in(&config(next));
    problems.into_iter().map(|problem| format!("{}: {}", problem.key, problem.what)).collect()
}

fn replaced(from: &str, to: &str) -> Vec<String> {
    assert!(OLD.contains(from));
    refused(OLD, &OLD.replace(from, to))
}

#[test]
fn sources_and_the_log_may_change() {
    assert_eq!(refused(OLD, OLD), [""; 0]);
    let file = "[[source]]\nname = \"f\"\ntype = \"file\"\npath = \"/x\"\n";
    assert_eq!(refused(OLD, &format!("{OLD}{file}")), [""; 0]);
    assert_eq!(replaced("7000", "7001"), [""; 0]);
    assert_eq!(replaced("id = \"gw\"\n", "id = \"gw\"\nlog = \"debug\"\n"), [""; 0]);
}

#[test]
fn every_other_key_is_refused_by_its_name() {
    let become_ = |key: &str, from: &str, to: &str| {
        format!("{key}: cannot become {to} from {from} while the agent runs")
    };
    let expected = become_("gateway.data_dir", "\"/d\"", "\"/e\"");
    assert_eq!(replaced("\"/d\"", "\"/e\""), [expected]);
    let expected = become_("uplink.main.url", "\"mqtt://a:1\"", "\"mqtt://b:1\"");
    assert_eq!(replaced("mqtt://a:1", "mqtt://b:1"), [expected]);
    let expected = become_("window.w.size", "\"10s\"", "\"20s\"");
    assert_eq!(replaced("size = \"10s\"", "size = \"20s\""), [expected]);
    let two = format!("{OLD}[[window]]\nname = \"x\"\nkind = \"tumbling\"\nsize = \"10s\"\n");
    assert_eq!(refused(OLD, &two), ["window.x: cannot come or go while the agent runs"]);
    let journal = format!("{OLD}[journal]\nmax_bytes = \"2GiB\"\n");
    let expected = become_("journal.max_bytes", "\"1GiB\"", "\"2GiB\"");
    assert_eq!(refused(OLD, &journal), [expected]);
}

#[test]
fn an_order_over_all_sources_holds_them_together() {
    let output = "[[output]]\ntype = \"jsonl\"\npath = \"/o\"\nordered_readings = true\n";
    let old = format!("{OLD}{output}");
    let more = format!("{old}[[source]]\nname = \"f\"\ntype = \"file\"\npath = \"/x\"\n");
    let what =
        "output.ordered_readings: the order has other sources, or other bounds, with this file";
    assert_eq!(refused(&old, &more), [what]);
    let own = |text: &str| {
        text.replace("ordered_readings = true", "ordered_readings = true\nsources = [\"in\"]")
    };
    assert_eq!(refused(&own(&old), &own(&more)), [""; 0]);
}

#[test]
fn standard_input_stays_with_whom_it_was_given_to() {
    let stdin = "[[source]]\nname = \"s\"\ntype = \"stdin\"\n";
    let old = format!("{OLD}{stdin}");
    let what = "source.s: standard input cannot be let go of while the agent runs";
    assert_eq!(refused(&old, OLD), [what]);
    assert_eq!(refused(&old, &old.replace("\"stdin\"", "\"stdin\"\nmax_line = \"1KiB\"")), [what]);
    let stamped = format!("{old}[source.time]\ntrust = \"gateway\"\n");
    assert_eq!(refused(&old, &stamped), [""; 0]);
    assert_eq!(refused(OLD, &old), [""; 0]);
}
