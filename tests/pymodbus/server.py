"""Two energy meters behind a serial server and an inverter behind TCP, by pymodbus.

Usage: server.py RTU_PORT TCP_PORT BASE

What a device says is made of how often the value was asked for, counted from BASE, so
that every answer is another one. Each is told on standard output before it is given:
a line of JSON with the unit, the address, the count and the time in nanoseconds.
"""

import asyncio
import json
import struct
import sys
import time
from collections import Counter
from functools import partial

from pymodbus import FramerType
from pymodbus.server import ModbusTcpServer
from pymodbus.simulator import DataType, SimData, SimDevice


def f32(value):
    return struct.unpack(">HH", struct.pack(">f", value))


def i16(value):
    return struct.unpack(">H", struct.pack(">h", value))


def u32(value):
    return struct.unpack(">HH", struct.pack(">I", value))


SAYS = {
    (1, 0): lambda n: f32(230 + n % 8 / 4),
    (1, 12): lambda n: f32(1000 + 10 * n),
    (1, 342): lambda n: f32(n / 4),
    (2, 342): lambda n: f32(500 + n / 4),
    (126, 83): lambda n: (0x8000,) if n % 4 == 3 else i16(-n),
    (126, 93): lambda n: u32(3_000_000_000 + n),
    (126, 103): lambda n: i16(n - 300),
}


async def answer(asked, unit, _function, start, address, count, registers, _values):
    for at in range(address, address + count):
        says = SAYS.get((unit, at))
        if says is None:
            continue
        asked[unit, at] += 1
        n = asked[unit, at]
        words = says(n)
        registers[at - start : at - start + len(words)] = words
        told = {"unit": unit, "address": at, "n": n, "at": time.time_ns()}
        print(json.dumps(told), flush=True)


def device(asked, unit):
    data = SimData(0, count=500, values=0, datatype=DataType.REGISTERS)
    return SimDevice(unit, [data], action=partial(answer, asked, unit))


async def main(rtu_port, tcp_port, base):
    asked = Counter({value: base for value in SAYS})
    meters = [device(asked, unit) for unit in (1, 2)]
    inverter = [device(asked, 126)]
    await asyncio.gather(
        ModbusTcpServer(
            meters, framer=FramerType.RTU, address=("127.0.0.1", rtu_port)
        ).serve_forever(),
        ModbusTcpServer(inverter, address=("127.0.0.1", tcp_port)).serve_forever(),
    )


asyncio.run(main(*map(int, sys.argv[1:])))
