//! Why a connection ended: rumqttc's errors of two protocol versions, put into
//! one kind of cause and words that say what to do.

use std::error::Error;
use std::io;

use rumqttc::tokio_rustls::rustls::{self, CertificateError};
use rumqttc::v5::mqttbytes::v5::{ConnectReturnCode as ConnectCodeV5, DisconnectReasonCode};
use rumqttc::{ConnectReturnCode as ConnectCodeV311, TlsError, v5};

use crate::core::seam::DownCause;

/// The end of a connection, or of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// For people.
    pub reason: String,
    /// For the core.
    pub cause: DownCause,
}

impl Failure {
    /// The network or the broker failed; later it may do.
    pub fn network(reason: impl Into<String>) -> Failure {
        Failure { reason: reason.into(), cause: DownCause::Network }
    }

    /// The broker does not want us.
    pub fn refused(reason: impl Into<String>) -> Failure {
        Failure { reason: reason.into(), cause: DownCause::Refused }
    }

    /// We were asked to end it.
    pub fn asked() -> Failure {
        Failure { reason: "disconnected on purpose".into(), cause: DownCause::Asked }
    }
}

impl From<rumqttc::ConnectionError> for Failure {
    fn from(error: rumqttc::ConnectionError) -> Failure {
        use rumqttc::{ConnectionError as E, StateError as S, mqttbytes::Error as B};
        match error {
            E::Io(error) | E::MqttState(S::Io(error) | S::Deserialization(B::Io(error))) => {
                of_io(&error)
            }
            E::Tls(error) => of_tls(&error),
            E::NetworkTimeout => Failure::network("the broker does not answer"),
            E::FlushTimeout => Failure::network("the broker takes no more bytes"),
            E::ConnectionRefused(code) => of_connect_v311(code),
            E::MqttState(S::Unsolicited(packet_id)) => unsolicited(packet_id),
            E::MqttState(S::AwaitPingResp) => no_pingresp(),
            E::MqttState(S::ConnectionAborted) => closed(),
            E::Websocket(error) => of_websocket(&error),
            E::ResponseValidation(error) => not_mqtt(&error),
            error => Failure::network(error.to_string()),
        }
    }
}

impl From<v5::ConnectionError> for Failure {
    fn from(error: v5::ConnectionError) -> Failure {
        use v5::mqttbytes::Error as B;
        use v5::{ConnectionError as E, StateError as S};
        match error {
            E::Io(error) | E::MqttState(S::Io(error) | S::Deserialization(B::Io(error))) => {
                of_io(&error)
            }
            E::Tls(error) => of_tls(&error),
            E::Timeout(_) => Failure::network("the broker does not answer"),
            E::ConnectionRefused(code) => of_connect_v5(code),
            E::MqttState(S::ServerDisconnect { reason_code, reason_string }) => {
                of_disconnect(reason_code, reason_string)
            }
            E::MqttState(S::Unsolicited(packet_id)) => unsolicited(packet_id),
            E::MqttState(S::AwaitPingResp) => no_pingresp(),
            E::MqttState(S::ConnectionAborted) => closed(),
            E::Websocket(error) => of_websocket(&error),
            E::ResponseValidation(error) => not_mqtt(&error),
            error => Failure::network(error.to_string()),
        }
    }
}

fn closed() -> Failure {
    Failure::network("the broker closed the connection")
}

fn no_pingresp() -> Failure {
    Failure::network("the broker answers no ping")
}

fn unsolicited(packet_id: u16) -> Failure {
    Failure::network(format!(
        "the broker acknowledged packet id {packet_id}, which is not in flight"
    ))
}

fn of_io(error: &io::Error) -> Failure {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(tls) => of_rustls(tls),
        None => Failure::network(error.to_string()),
    }
}

fn of_tls(error: &TlsError) -> Failure {
    match error {
        TlsError::Io(error) => of_io(error),
        TlsError::TLS(error) => of_rustls(error),
        TlsError::DNSName(_) => tls("the broker's name in the url is no valid server name".into()),
        error => tls(error.to_string()),
    }
}

fn of_rustls(error: &rustls::Error) -> Failure {
    use CertificateError as C;
    let rustls::Error::InvalidCertificate(certificate) = error else {
        return tls(error.to_string());
    };
    let what = match certificate {
        C::UnknownIssuer | C::BadSignature => "no CA in ca_file vouches for it",
        C::Expired | C::ExpiredContext { .. } => "it has expired, or this gateway's clock is ahead",
        C::NotValidYet | C::NotValidYetContext { .. } => {
            "it is not valid yet, or this gateway's clock is behind"
        }
        C::NotValidForName | C::NotValidForNameContext { .. } => {
            "it is not for the server name in the url"
        }
        _ => return tls(error.to_string()),
    };
    tls(format!("the broker's certificate is not accepted: {what} ({error})"))
}

fn tls(reason: String) -> Failure {
    Failure { reason: format!("TLS: {reason}"), cause: DownCause::Tls }
}

/// The handshake of WebSocket and of the TLS below it come as one kind of error: the
/// cause is somewhere inside.
fn of_websocket(error: &(dyn Error + 'static)) -> Failure {
    let mut cause = Some(error);
    while let Some(inner) = cause {
        if let Some(io) = inner.downcast_ref() {
            return of_io(io);
        }
        cause = inner.source();
    }
    Failure::network(format!(
        "the web server does not open a WebSocket ({error}); is the path in the url right?"
    ))
}

fn not_mqtt(error: &(dyn Error + 'static)) -> Failure {
    Failure::network(format!("the web server speaks no MQTT at the path in the url ({error})"))
}

fn of_connect_v311(code: ConnectCodeV311) -> Failure {
    let number = code as u8;
    let what = match code {
        ConnectCodeV311::BadUserNamePassword => "user name or password is wrong",
        ConnectCodeV311::NotAuthorized => "not authorized",
        ConnectCodeV311::BadClientId => "it does not accept the client id",
        ConnectCodeV311::RefusedProtocolVersion => "it does not speak MQTT 3.1.1",
        ConnectCodeV311::ServiceUnavailable => {
            return Failure::network("the broker says that it is unavailable (code 3)");
        }
        ConnectCodeV311::Success => return Failure::network("the broker gave a useless answer"),
    };
    Failure::refused(format!("the broker refuses the connection: {what} (code {number})"))
}

fn of_connect_v5(code: ConnectCodeV5) -> Failure {
    use ConnectCodeV5 as C;
    let what = match code {
        C::BadUserNamePassword => "user name or password is wrong",
        C::NotAuthorized => "not authorized",
        C::Banned => "this client is banned",
        C::BadClientId | C::ClientIdentifierNotValid => "it does not accept the client id",
        C::RefusedProtocolVersion | C::UnsupportedProtocolVersion => "it does not speak MQTT 5",
        C::BadAuthenticationMethod => "it wants another way of authentication",
        C::RetainNotSupported => "it takes no retained will",
        C::QoSNotSupported => "it takes no will with QoS 1",
        C::ServiceUnavailable | C::ServerUnavailable | C::ServerBusy | C::QuotaExceeded => {
            return Failure::network(format!("the broker has no room for us now ({code:?})"));
        }
        C::ConnectionRateExceeded => {
            return Failure::network("the broker is asked too often (ConnectionRateExceeded)");
        }
        C::UseAnotherServer | C::ServerMoved => {
            return Failure::network(format!("the broker sends us elsewhere ({code:?})"));
        }
        _ => "see its log",
    };
    Failure::refused(format!("the broker refuses the connection: {what} ({code:?})"))
}

fn of_disconnect(code: DisconnectReasonCode, text: Option<String>) -> Failure {
    use DisconnectReasonCode as C;
    let number = code as u8;
    let (cause, what) = match code {
        C::SessionTakenOver => (
            DownCause::TakenOver,
            "another client took over this client id; each gateway needs its own",
        ),
        C::PacketTooLarge => (DownCause::PacketTooLarge, "a packet is too large for the broker"),
        C::NotAuthorized => (DownCause::Refused, "the broker no longer allows this client"),
        _ => (DownCause::Network, "the broker ended the connection"),
    };
    let said = text.map(|text| format!(": {text}")).unwrap_or_default();
    Failure { reason: format!("{what} ({code:?}, 0x{number:02X}){said}"), cause }
}
