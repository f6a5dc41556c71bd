//! Arguments, a command, an exit code. The only caller of `exit`.

use std::io::Write as _;

use tidegate::cli::Cli;
use tidegate::store;

fn main() {
    abort_on_panic();
    let exit = match Cli::of_arguments().execute() {
        Ok(exit) => exit,
        Err(failure) => {
            say(&failure.message);
            failure.exit
        }
    };
    std::process::exit(exit.code());
}

/// A panic is a bug: the process dies at once and systemd starts it again from
/// what is durable. The one exception is the journal thread while it opens a
/// damaged segment, where sled itself panics and the panic is caught.
fn abort_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if store::is_opening_segment() {
            return;
        }
        report(panic);
        say("this is a bug in tidegate: please report it");
        std::process::abort();
    }));
}

fn say(message: &str) {
    // When stderr is gone there is nobody to tell.
    let _ = writeln!(std::io::stderr().lock(), "tidegate: {message}");
}
