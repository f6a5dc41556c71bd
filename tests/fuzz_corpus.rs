//! Every decoder of outside bytes on the kept corpus of `fuzz/` and seeded mutations
//! of it, with memory counted; and the bombs that are known, with what is said of them.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "fuzz_corpus/bombs.rs"]
mod bombs;
#[path = "fuzz_corpus/memory.rs"]
mod memory;
#[path = "fuzz_corpus/mutation.rs"]
mod mutation;
#[expect(unreachable_pub, reason = "it is a library of the fuzzer's too")]
#[path = "../fuzz/src/lib.rs"]
mod targets;

use std::path::{Path, PathBuf};

use mutation::Mutator;
use targets::{MEMORY_BASE, TARGETS, Target};

/// The kept inputs of a target, by the names of their files.
fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// Runs one input; where it fails, the message holds it.
fn run(target: &Target, input: &[u8]) {
    let (result, taken) = memory::peak(|| std::panic::catch_unwind(|| (target.run)(input)));
    let shown = || input.escape_ascii().to_string();
    assert!(result.is_ok(), "{} with b\"{}\"", target.name, shown());
    let allowed = MEMORY_BASE + target.memory_per_byte * input.len();
    assert!(taken <= allowed, "{}: {taken} bytes at once for b\"{}\"", target.name, shown());
}

/// The corpus of one target as it is, and so many mutations of it.
fn try_out(name: &str, mutations: usize) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let kept = corpus(name);
    assert!(kept.len() >= 3, "{name} has too small a corpus");
    // What is made once, like the sources of the targets, is no memory of an input.
    (target.run)(&kept[0].1);
    for (_, input) in &kept {
        run(target, input);
        for end in 0..input.len().min(200) {
            run(target, &input[..end]);
        }
    }
    let seeds: Vec<Vec<u8>> = kept.into_iter().map(|(_, input)| input).collect();
    let mut mutator = Mutator::new(name, &seeds);
    for _ in 0..mutations {
        run(target, &mutator.next());
    }
}

macro_rules! decoders {
    ($($name:ident: $mutations:expr,)*) => {
        $(
            #[test]
            fn $name() {
                try_out(stringify!($name), $mutations);
            }
        )*

        #[test]
        fn every_target_is_tried_here_and_can_be_fuzzed() {
            let tried = [$(stringify!($name)),*];
            assert_eq!(TARGETS.map(|target| target.name), tried);
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
            let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
            for name in tried {
                assert!(manifest.contains(&format!("name = \"{name}\"\n")), "{name}");
                assert!(root.join(format!("fuzz_targets/{name}.rs")).is_file(), "{name}");
            }
        }
    };
}

decoders! {
    json_lines: 20_000,
    line_protocol: 20_000,
    line_splitter: 20_000,
    bare_values: 20_000,
    times: 20_000,
    json_pointers: 20_000,
    topics: 20_000,
    config: 1_000,
    http_query: 20_000,
    modbus_tcp: 20_000,
    modbus_rtu: 20_000,
    modbus_registers: 20_000,
    postcard_batch: 20_000,
    journal: 20_000,
    time_daemons: 20_000,
}
