//! `tidegate check`: every problem of the configuration at once.

use std::fs::File;
use std::path::Path;

use super::{ConfigFile, print};
use crate::config::{Config, Credentials, OutputKind, SourceKind};
use crate::exit::{Exit, Failure};
use crate::host;
use crate::http::token::Token;
use crate::mqtt::{Broker, Identity};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tidegate check -c tidegate.toml --print\n\
    Ends with 0 when all is well and with 78 when something is wrong. Warns, and ends with 0, of\n\
    files that are not there and of what is hardly meant so.")]
pub(super) struct Args {
    #[command(flatten)]
    config: ConfigFile,
    /// Print all keys as they are understood, defaults included.
    #[arg(long)]
    print: bool,
}

pub(super) fn execute(args: &Args) -> Result<Exit, Failure> {
    // Only the service itself has them, and commands that its unit runs before it.
    let credentials =
        host::systemd::credentials_directory().map_or(Credentials::Unseen, Credentials::In);
    let (config, warnings) = Config::survey(&args.config.path, &credentials)
        .map_err(|problems| Failure::new(Exit::Config, problems))?;
    if args.print {
        print(&config.print())?;
        return Ok(Exit::Done);
    }
    let file = args.config.path.display();
    let unseen = config.unseen_credentials().into_iter().collect::<Vec<_>>();
    if !unseen.is_empty() {
        print(&format!(
            "{file}: not looked for: {}. systemd gives credentials to the service when it starts\n",
            unseen.join(", ")
        ))?;
    }
    let mut warnings: Vec<String> = warnings.to_string().lines().map(str::to_owned).collect();
    warnings.extend(unusable(&config)?.into_iter().map(|what| format!("{file}: {what}")));
    for warning in &warnings {
        print(&format!("{warning}\n"))?;
    }
    let how = match warnings.len() {
        0 => String::new(),
        1 => ", with 1 warning".to_owned(),
        several => format!(", with {several} warnings"),
    };
    print(&format!("{file}: good{how}\n"))?;
    Ok(Exit::Done)
}

/// What is wrong with secrets and certificates that are there, by the word of those who
/// will use them.
fn unusable(config: &Config) -> Result<Vec<String>, Failure> {
    let mut found = Vec::new();
    if let Some(path) = config.http.token_file.as_deref().filter(|path| can_be_read(path)) {
        found.extend(Token::read(path).err().map(|what| format!("http.token_file: {what}")));
    }
    let uplinks = config.uplinks.iter();
    let uplinks = uplinks.map(|one| (format!("uplink {}", one.name), &one.url, &one.login));
    let sources = config.sources.iter().filter_map(|source| match &source.kind {
        SourceKind::Mqtt(mqtt) => Some((format!("source {}", source.name), &mqtt.url, &mqtt.login)),
        _ => None,
    });
    let outputs = config.outputs.iter().filter_map(|output| match &output.kind {
        OutputKind::Mqtt { url, login } => Some((format!("output {url}"), url, login)),
        _ => None,
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io("the runtime does not start", &error))?;
    for (who, url, login) in uplinks.chain(sources).chain(outputs) {
        // What is not there is said already.
        if login.files().all(|path| can_be_read(path)) {
            let broker = Broker::of(url, "", login);
            let read = runtime.block_on(broker.read(&mut Identity::default()));
            found.extend(read.err().map(|failure| format!("{who}: {}", failure.reason)));
        }
    }
    Ok(found)
}

/// A pipe is not: it would be waited for.
fn can_be_read(path: &Path) -> bool {
    path.is_file() && File::open(path).is_ok()
}
