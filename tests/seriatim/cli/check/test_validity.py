"""From when until when certificates are valid, as OpenSSL writes them."""

import ssl
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.wires.certificate_parts import certificates_of, validity
from seriatim.cli.check.check_results import CheckResults, Level
from seriatim.cli.check.validity import judge
from tests.support.secured import make_certificates, make_past_certificate


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    pem, _ = make_past_certificate(tmp_path_factory.mktemp("past"))
    return ssl.PEM_cert_to_DER_cert(pem.read_text())


BEGIN, END = datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 2, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "level", "text"),
    [
        (BEGIN - timedelta(seconds=1), Level.FAILED, "is not valid before 2020-01-01 00:00 UTC"),
        (BEGIN, Level.OK, "is valid until 2020-02-01"),
        (END - timedelta(days=14), Level.OK, "is valid until 2020-02-01"),
        (END - timedelta(days=13), Level.WARNING, "expires soon, on 2020-02-01 00:00 UTC: "),
        (END + timedelta(seconds=1), Level.FAILED, "has expired, on 2020-02-01 00:00 UTC"),
    ],
)
def test_given_a_moment_then_the_certificate_is_judged(
    past: bytes, now: datetime, level: Level, text: str
) -> None:
    results = CheckResults("x")
    judge(results, "certificate", past, now)
    (found,) = results.found
    assert found.level == level
    assert found.text.startswith(text)


def test_given_years_beyond_2050_then_they_are_read_as_well(tmp_path: Path) -> None:
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500"
    names = ["-keyout", "k.pem", "-out", "c.pem", "-subj", "/CN=x"]
    subprocess.run([*command.split(), *names], cwd=tmp_path, check=True, capture_output=True)
    (der,) = certificates_of((tmp_path / "c.pem").read_text())
    begin, end = validity(der)
    assert end - begin == timedelta(days=36500)


def test_given_a_chain_then_each_certificate_is_found(tmp_path: Path) -> None:
    folder = make_certificates(tmp_path)
    both = [(folder / f"{name}.pem").read_text() for name in ("server", "client")]
    found = certificates_of("# two\n" + "".join(both))
    assert found == [ssl.PEM_cert_to_DER_cert(one) for one in both]


@given(st.data())
def test_given_a_damaged_certificate_then_it_is_read_or_refused(
    past: bytes, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(past) - 1))
    damaged = past[:at] + bytes([data.draw(st.integers(0, 255))]) + past[at + 1 :]
    damaged = damaged[: data.draw(st.integers(0, len(damaged)))]
    try:
        begin, _ = validity(damaged)
    except ValueError:
        return
    assert begin.tzinfo is UTC
