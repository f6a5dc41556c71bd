//! On site: durable results and readings go to local outputs and HTTP clients, without the
//! uplink.

use std::sync::Arc;

use futures_util::future::join_all;

use crate::config::{self, Config};
use crate::core::seam::Shown;
use crate::http::stream::Results;
use crate::mqtt::Broker;
use crate::output::{self, Content, Item, OutputHandle, OutputKind, OutputSettings, SocketAddress};

/// All local receivers of results.
#[derive(Debug)]
pub struct Site {
    gateway: Arc<str>,
    results: Results,
    outputs: Vec<OutputHandle>,
}

impl Site {
    /// Starts the outputs of a configuration.
    pub(super) fn start(config: &Config, results: Results) -> Self {
        let gateway: Arc<str> = config.gateway.id.as_str().into();
        let settings = |(number, output)| settings(&gateway, number, output);
        let outputs = (1..).zip(&config.outputs).map(settings).map(output::spawn).collect();
        Self { gateway, results, outputs }
    }

    /// A site without outputs: results are seen over HTTP alone.
    #[cfg(test)]
    pub(super) fn quiet(gateway: &str, results: Results) -> Self {
        Self { gateway: gateway.into(), results, outputs: Vec::new() }
    }

    /// Shows a result, or a reading that was too late or whose turn has come.
    pub fn show(&self, shown: Shown) {
        match shown {
            Shown::Late(late) => self.results.late(late),
            Shown::Result(result) => {
                self.offer(Content::Result(Arc::clone(&result)));
                self.results.push(result);
            }
            Shown::Ordered(reading) => self.offer(Content::Ordered(reading)),
        }
    }

    fn offer(&self, content: Content) {
        let item = Item::new(&self.gateway, content);
        self.outputs.iter().for_each(|output| output.offer(&item));
    }

    /// Writes what waits and ends the outputs, all at once: within the time that one
    /// may take.
    pub async fn stop(self) {
        join_all(self.outputs.into_iter().map(OutputHandle::stop)).await;
    }
}

fn settings(gateway: &Arc<str>, number: usize, output: &config::Output) -> OutputSettings {
    let kind = match &output.kind {
        config::OutputKind::Jsonl { path } => OutputKind::Jsonl { path: path.clone() },
        config::OutputKind::Socket { address } => OutputKind::Socket {
            address: match address {
                config::Address::Tcp(address) => SocketAddress::Tcp(*address),
                config::Address::Unix(path) => SocketAddress::Unix(path.clone()),
            },
        },
        config::OutputKind::Mqtt { url, login } => {
            let client_id = config::site_client_id(gateway, number);
            OutputKind::Mqtt(Broker::of(url, client_id, login))
        }
    };
    let windows = output.windows.iter().map(|window| window.as_str().into()).collect();
    let order = output.ordered.as_ref().map(|_| output.order_name().into());
    OutputSettings { gateway: Arc::clone(gateway), kind, windows, order }
}
