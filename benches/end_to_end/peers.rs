//! Who else carries payloads to Mosquitto: rumqttc with nothing around it, and
//! Mosquitto's own bridge.

use std::time::{Duration, Instant};

use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::Packet;
use rumqttc::v5::{AsyncClient, Event, EventLoop, MqttOptions};

use super::INFLIGHT;
use super::process::{cpu_seconds, free_port, mosquitto, peak_resident_kib};

/// Publishes of a peer that waits for its PUBACKs.
pub(crate) async fn bare_rumqttc(count: u64, bytes: usize) -> Duration {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let _broker = mosquitto(folder.path(), port, "max_inflight_messages 0");
    publish(port, count, bytes).await
}

async fn publish(port: u16, count: u64, bytes: usize) -> Duration {
    let (client, mut events) = connect("bare", port).await;
    let started = Instant::now();
    tokio::spawn(async move {
        for _ in 0..count {
            let payload = vec![b'x'; bytes];
            client.publish("bench/bare", QoS::AtLeastOnce, false, payload).await.unwrap();
        }
    });
    let mut acked = 0;
    while acked < count {
        if let Event::Incoming(Packet::PubAck(_)) = events.poll().await.unwrap() {
            acked += 1;
        }
    }
    started.elapsed()
}

/// A client that the broker has answered.
async fn connect(id: &str, port: u16) -> (AsyncClient, EventLoop) {
    loop {
        let mut options = MqttOptions::new(id, "127.0.0.1", port);
        options.set_outgoing_inflight_upper_limit(INFLIGHT);
        options.set_keep_alive(Duration::from_secs(30));
        let (client, mut events) = AsyncClient::new(options, 200);
        match events.poll().await {
            Ok(_) => return (client, events),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Fills a broker that bridges to another which is away, then starts that. How
/// long the bridge would take for all at the rate which the other counts.
pub(crate) async fn bridge(count: u64, bytes: usize) -> Duration {
    let folder = tempfile::tempdir().unwrap();
    let (near, far) = (free_port(), free_port());
    let bridge = format!(
        "max_queued_messages 0\nmax_queued_bytes 0\nmax_inflight_messages {INFLIGHT}\n\
         connection up\naddress 127.0.0.1:{far}\ntopic # out 1\ncleansession false\n\
         restart_timeout 1\ntry_private false\nnotifications false\n"
    );
    let near_broker = mosquitto(folder.path(), near, &bridge);
    let pid = near_broker.0.id();
    publish(near, count, bytes).await;
    let cpu = cpu_seconds(pid);
    let _far_broker = mosquitto(folder.path(), far, "max_inflight_messages 0\nsys_interval 1");
    let took = count_arrivals(far, count).await;
    let spent = (cpu_seconds(pid) - cpu) * 1e6 / count as f64;
    println!(
        "bridge: {spent:.1} CPU seconds per million, peak resident {} KiB",
        peak_resident_kib(pid)
    );
    took
}

/// From the first sample with arrivals to the one that has them all or, if that
/// is the next, the whole of it: a broker says what it counts once a second.
async fn count_arrivals(port: u16, count: u64) -> Duration {
    let (client, mut events) = connect("counter", port).await;
    client.subscribe("$SYS/broker/publish/messages/received", QoS::AtMostOnce).await.unwrap();
    let mut samples: Vec<(Instant, u64)> = vec![(Instant::now(), 0)];
    loop {
        let Event::Incoming(Packet::Publish(message)) = events.poll().await.unwrap() else {
            continue;
        };
        let received: u64 = String::from_utf8_lossy(&message.payload).parse().unwrap();
        samples.push((Instant::now(), received));
        if received >= count {
            break;
        }
    }
    let first = samples.iter().position(|sample| sample.1 > 0).unwrap();
    let partial: Vec<_> = samples[first..].iter().filter(|sample| sample.1 < count).collect();
    let (from, to) = match partial[..] {
        [from, .., to] => (*from, *to),
        _ => (samples[first - 1], samples[samples.len() - 1]),
    };
    let share = (to.1 - from.1) as f64 / count as f64;
    (to.0 - from.0).div_f64(share)
}
