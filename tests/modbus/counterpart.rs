//! Against another implementation of Modbus: the server of tokio-modbus.

use std::future::{Ready, ready};

use tidegate::core::reading::Value;
use tokio::net::TcpListener;
use tokio_modbus::prelude::{ExceptionCode, Request, Response, SlaveRequest};
use tokio_modbus::server::{rtu_over_tcp, tcp};

use super::rig::{bad, good, start};

struct Registers;

impl tokio_modbus::server::Service for Registers {
    type Request = SlaveRequest<'static>;
    type Response = Response;
    type Exception = ExceptionCode;
    type Future = Ready<Result<Response, ExceptionCode>>;

    fn call(&self, asked: Self::Request) -> Self::Future {
        let words = |first: u16, count: u16| {
            (0..count).map(|at| 1_000_u16.wrapping_add(first.wrapping_add(at))).collect()
        };
        let bits =
            |first: u16, count: u16| (0..count).map(|at| (first + at).is_multiple_of(3)).collect();
        ready(match asked.request {
            Request::ReadCoils(first, count) => Ok(Response::ReadCoils(bits(first, count))),
            Request::ReadDiscreteInputs(first, count) => {
                Ok(Response::ReadDiscreteInputs(bits(first, count)))
            }
            Request::ReadInputRegisters(first, count) => {
                Ok(Response::ReadInputRegisters(words(first, count)))
            }
            _ => Err(ExceptionCode::IllegalFunction),
        })
    }
}

const REGISTERS: &str = "registers = [
  { property = 'coil', table = 'coil', address = 9, type = 'bool' },
  { property = 'discrete', table = 'discrete', address = 10, type = 'bool' },
  { property = 'input', table = 'input', address = 65535, type = 'u16' },
  { property = 'holding', table = 'holding', address = 1, type = 'u16' },
]";

async fn check(keys: String) {
    let mut rig = start(&format!("{keys}\n{REGISTERS}"));
    let bit = |name: &str, value| (name.to_owned(), Ok(Value::Bool(value)));
    assert_eq!(rig.said().await, [bit("coil", true)]);
    assert_eq!(rig.said().await, [bit("discrete", false)]);
    assert_eq!(rig.said().await, [good("input", (1_000 + 65_535) % 65_536)]);
    assert_eq!(rig.said().await, [bad("holding", "exception 1 (illegal function)")]);
    rig.stop().await;
}

#[tokio::test]
async fn a_server_of_modbus_tcp_is_understood() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let server = tcp::Server::new(listener);
        let connected = |stream, peer| async move {
            tcp::accept_tcp_connection(stream, peer, |_| Ok(Some(Registers)))
        };
        server.serve(&connected, |error| panic!("{error}")).await.unwrap();
    });
    check(format!("address = '{address}'")).await;
}

#[tokio::test]
async fn a_server_of_rtu_over_tcp_is_understood() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let server = rtu_over_tcp::Server::new(listener);
        let connected = |stream, peer| async move {
            rtu_over_tcp::accept_tcp_connection(stream, peer, |_| Ok(Some(Registers)))
        };
        server.serve(&connected, |error| panic!("{error}")).await.unwrap();
    });
    check(format!("address = '{address}'\nrtu_over_tcp = true")).await;
}
