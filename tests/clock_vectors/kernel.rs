//! What the kernel and chronyd say, each judged, and both together.

use serde_json::{Value, json};
use tidegate::core::clock::ClockSource;
use tidegate::core::clock::chrony::{ChronyReport, ChronyVerdict};
use tidegate::core::clock::combine::{Evidence, Update};
use tidegate::core::clock::kernel::{KernelClock, KernelVerdict};
use tidegate::host::chrony;

use crate::{check_keys, flag, int};

const CONTEXT: &[&str] = &[
    "update_age_ns",
    "update_interval_ns",
    "err_at_update_ns",
    "rate_ppb",
    "have_anchor",
    "step_since_sync",
    "boot_source",
    "daemon_source",
];

pub(crate) fn adjtimex(input: &Value) -> Value {
    check_keys(input, &["timex", "context"]);
    let kernel = kernel(&input["timex"]);
    let quality = quality(Some(&kernel), None, &input["context"]);
    json!({ "kernel": shown(&kernel.judge()), "quality": quality })
}

pub(crate) fn chrony(input: &Value) -> Value {
    check_keys(input, &["tracking_csv", "now_real_ns", "timex", "context"]);
    let report = from_csv(input["tracking_csv"].as_str().unwrap());
    let verdict = report.judge(int(input, "now_real_ns").unwrap());
    let kernel = input.get("timex").map(kernel);
    let mut chrony = json!({
        "sync": verdict.is_synchronized,
        "local_reference": verdict.is_local_reference,
        "stratum": report.stratum,
        "freq_ppm": report.freq_ppm,
        "skew_ppm": report.skew_ppm,
        "err_ns": verdict.error_ns,
        "fresh": verdict.is_fresh,
        "source": verdict.source.as_str(),
    });
    if verdict.is_synchronized {
        chrony["age_ns"] = verdict.age_ns.into();
    }
    json!({
        "chrony": chrony,
        "quality": quality(kernel.as_ref(), Some(verdict), &input["context"]),
    })
}

/// The packets of chronyd's command protocol, as recorded.
pub(crate) fn packet(input: &Value, expected: &Value) {
    let bytes = |key: &str| {
        let text = input[key].as_str().unwrap();
        let pairs = (0..text.len()).step_by(2);
        pairs.map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect::<Vec<u8>>()
    };
    let sequence = expected["sequence"].as_u64().unwrap() as u32;
    assert_eq!(chrony::request(sequence).to_vec(), bytes("request_hex"));
    let report = chrony::parse(&bytes("reply_hex"), sequence).unwrap();
    let ns = |key: &str| (expected[key].as_f64().unwrap() * 1e9).round() as i64;
    let second_ns = expected["ref_time_s"].as_i64().unwrap() * 1_000_000_000;
    let ref_id = u32::from_str_radix(expected["ref_id"].as_str().unwrap(), 16).unwrap();
    assert_eq!(report.ref_id, ref_id);
    assert_eq!(report.is_refclock, expected["family"] == 0);
    assert_eq!(u64::from(report.stratum), expected["stratum"].as_u64().unwrap());
    assert_eq!(report.is_synchronised, expected["leap_status"] != 3);
    assert_eq!(report.reference_ns, second_ns + expected["ref_time_ns"].as_i64().unwrap());
    assert_eq!(report.correction_ns, ns("current_correction"));
    assert_eq!(report.root_delay_ns, ns("root_delay"));
    assert_eq!(report.root_dispersion_ns, ns("root_dispersion"));
    assert_eq!(report.update_interval_ns, ns("last_update_interval"));
    // The last bit of a decimal text is the JSON reader's.
    let is_near = |got: f64, key: &str| (got - expected[key].as_f64().unwrap()).abs() < 1e-12;
    assert!(is_near(report.freq_ppm, "freq_ppm") && is_near(report.skew_ppm, "skew_ppm"));
}

/// How long a request must be to be answered: ours is.
pub(crate) fn request_length(input: &Value, expected: &Value) {
    let ours = chrony::request(1).len() as u64;
    let lengths = input["request_len"].as_array().unwrap();
    let at = lengths.iter().position(|length| length.as_u64() == Some(ours)).unwrap();
    assert_eq!(expected["status"][at], 0);
    assert_eq!(expected["reply_len"][at], ours);
}

fn kernel(timex: &Value) -> KernelClock {
    check_keys(timex, &["rc", "status", "maxerror", "esterror", "offset", "freq", "tick", "tai"]);
    let number = |key: &str| int(timex, key).unwrap();
    KernelClock {
        code: number("rc") as i32,
        status: number("status") as i32,
        max_error_us: number("maxerror"),
        est_error_us: number("esterror"),
        offset: number("offset"),
        freq: number("freq"),
        tick: number("tick"),
        tai: number("tai") as i32,
    }
}

fn shown(verdict: &KernelVerdict) -> Value {
    json!({
        "ksync": verdict.is_synchronized,
        "unsync_flag": verdict.unsync_flag,
        "clock_failure": verdict.clock_failure,
        "pps_error": verdict.pps_error,
        "leap": verdict.leap.as_str(),
        "maxerror_kind": verdict.kind.as_str(),
        "err_ns": verdict.error_ns,
    })
}

fn quality(kernel: Option<&KernelClock>, chrony: Option<ChronyVerdict>, context: &Value) -> Value {
    check_keys(context, CONTEXT);
    let unsigned = |key: &str| int(context, key).map(i64::unsigned_abs);
    let quality = Evidence {
        kernel: kernel.map(KernelClock::judge),
        chrony,
        ptp: None,
        update: Update {
            age_ns: unsigned("update_age_ns"),
            interval_ns: unsigned("update_interval_ns"),
            error_ns: unsigned("err_at_update_ns"),
            rate_ppb: int(context, "rate_ppb").unwrap_or(0),
        },
        has_anchor: flag(context, "have_anchor").unwrap_or(false),
        is_stepped: flag(context, "step_since_sync").unwrap_or(false),
        boot_source: source(context, "boot_source", ClockSource::Unknown),
        daemon_source: source(context, "daemon_source", ClockSource::Ntp),
    }
    .quality();
    json!({
        "source": quality.source.as_str(),
        "state": quality.state.as_str(),
        "err_ns": quality.error_ns,
    })
}

fn source(context: &Value, key: &str, otherwise: ClockSource) -> ClockSource {
    use ClockSource::{FreeRunning, Gnss, Manual, Ntp, Ptp, Rtc, Saved, Unknown};
    let Some(word) = context.get(key).and_then(Value::as_str) else { return otherwise };
    let known = [Unknown, Gnss, Ptp, Ntp, Rtc, Manual, FreeRunning, Saved];
    known.into_iter().find(|source| source.as_str() == word).unwrap()
}

/// One line of `chronyc -c tracking`.
fn from_csv(line: &str) -> ChronyReport {
    let fields: Vec<&str> = line.split(',').collect();
    let is_address = fields[1].contains(':') || fields[1].replace('.', "").parse::<u64>().is_ok();
    ChronyReport {
        ref_id: u32::from_str_radix(fields[0], 16).unwrap(),
        is_refclock: !fields[1].is_empty() && !is_address,
        stratum: fields[2].parse().unwrap(),
        is_synchronised: fields[13] != "Not synchronised",
        reference_ns: seconds(fields[3]),
        correction_ns: seconds(fields[4]),
        freq_ppm: fields[7].parse().unwrap(),
        skew_ppm: fields[9].parse().unwrap(),
        root_delay_ns: seconds(fields[10]),
        root_dispersion_ns: seconds(fields[11]),
        update_interval_ns: seconds(fields[12]),
    }
}

/// Decimal seconds as nanoseconds, exactly.
fn seconds(text: &str) -> i64 {
    let magnitude = text.trim_start_matches(['+', '-']);
    let (whole, fraction) = magnitude.split_once('.').unwrap_or((magnitude, ""));
    let nanos: i64 = format!("{fraction:0<9}")[..9].parse().unwrap();
    let ns = whole.parse::<i64>().unwrap() * 1_000_000_000 + nanos;
    if text.starts_with('-') { -ns } else { ns }
}
