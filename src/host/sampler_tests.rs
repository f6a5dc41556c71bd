use tokio::net::UdpSocket;

use super::*;

/// A folder without any trace of a daemon, and a sampler that looks there.
struct Setting {
    root: tempfile::TempDir,
    /// chronyd's place: says nothing unless told to.
    chronyd: UdpSocket,
}

impl Setting {
    async fn new() -> Self {
        let chronyd = UdpSocket::bind(("127.0.0.1", 0)).await.unwrap();
        Self { root: tempfile::tempdir().unwrap(), chronyd }
    }

    fn spawn(&self, reference: Reference) -> (Sampler, mpsc::Receiver<ClockFacts>) {
        let (out, facts) = mpsc::channel(1);
        let settings = SamplerSettings {
            reference,
            chrony_address: self.chronyd.local_addr().unwrap(),
            root: self.root.path().to_owned(),
        };
        (spawn(settings, out), facts)
    }

    /// Answers one question: all fields zero but the stratum.
    async fn answer(&self, stratum: u8) {
        let mut packet = [0; 200];
        let (_, from) = self.chronyd.recv_from(&mut packet).await.unwrap();
        let mut reply = [0; 104];
        reply[..8].copy_from_slice(&[6, 2, 0, 0, 0, 33, 0, 5]);
        reply[16..20].copy_from_slice(&packet[8..12]);
        reply[53] = stratum;
        self.chronyd.send_to(&reply, from).await.unwrap();
    }
}

fn stratum(facts: &ClockFacts) -> Option<u16> {
    facts.chrony.as_ref().map(|(report, _)| report.stratum)
}

/// The facts until they say so.
async fn until(
    facts: &mut mpsc::Receiver<ClockFacts>,
    is_it: impl Fn(&ClockFacts) -> bool,
) -> ClockFacts {
    loop {
        let next = facts.recv().await.unwrap();
        if is_it(&next) {
            return next;
        }
    }
}

#[tokio::test]
async fn a_silent_chronyd_does_not_delay_the_kernel() {
    let setting = Setting::new().await;
    let (sampler, mut facts) = setting.spawn(Reference::Auto);
    for _ in 0..3 {
        sampler.sample_now();
        let next = facts.recv().await.unwrap();
        assert!(next.kernel.is_some());
        assert_eq!((next.chrony, next.ptp, next.timesyncd_at), (None, None, None));
        assert!(!next.has_daemon);
    }
}

#[tokio::test]
async fn chronys_answer_is_carried_and_asked_for_again_on_request() {
    let setting = Setting::new().await;
    let (sampler, mut facts) = setting.spawn(Reference::Auto);
    setting.answer(3).await;
    let answered = until(&mut facts, |facts| facts.chrony.is_some()).await;
    assert_eq!(stratum(&answered), Some(3));
    assert!(answered.has_daemon && answered.kernel.is_some());
    let came = answered.chrony.unwrap().1;
    assert!(came > IngestTime::from_unix_ns(1_577_836_800_000_000_000));
    sampler.sample_now();
    let carried = facts.recv().await.unwrap();
    assert_eq!(stratum(&carried), Some(3));
    setting.answer(4).await;
    until(&mut facts, |facts| stratum(facts) == Some(4)).await;
}

#[tokio::test]
async fn the_kernel_alone_is_asked_when_told_so_and_nobody_when_told_so() {
    let setting = Setting::new().await;
    let folder = setting.root.path().join("run/systemd/timesync");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("synchronized"), "").unwrap();
    let (_sampler, mut facts) = setting.spawn(Reference::Kernel);
    let first = facts.recv().await.unwrap();
    assert!(first.kernel.is_some() && first.timesyncd_at.is_some() && first.has_daemon);
    let (_sampler, mut facts) = setting.spawn(Reference::None);
    let first = facts.recv().await.unwrap();
    assert_eq!(first, ClockFacts { has_daemon: true, ..ClockFacts::default() });
    let asked = setting.chronyd.try_recv(&mut [0; 200]);
    assert_eq!(asked.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[tokio::test]
async fn it_ends_when_nobody_listens() {
    let setting = Setting::new().await;
    let (sampler, facts) = setting.spawn(Reference::Auto);
    drop(facts);
    sampler.task.await.unwrap();
}
