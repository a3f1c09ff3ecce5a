"""The settings of TLS: from flags, variables and files, and their bounds."""

from pathlib import Path

import pytest

from broker.settings.errors import WrongSettings
from broker.settings.resolve import resolve
from broker.settings.tls_settings import BrokerTlsSettings

CERTIFICATE = {"tls.cert_file": "c.pem"}


def test_given_nothing_when_resolved_then_there_is_no_tls() -> None:
    tls = resolve({}, {}).settings.tls
    assert tls == BrokerTlsSettings()
    assert (tls.is_on, tls.is_verifying) == (False, False)
    assert (tls.timeout, tls.min_version) == (2.0, "1.2")


def test_given_a_file_a_variable_and_a_flag_then_the_stronger_one_counts(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('[tls]\ncert_file = "a.pem"\nkey_file = "a.key"\nca_file = "a.ca"\n')
    environment = {"SERIATIM_TLS_CERT_FILE": "b.pem", "SERIATIM_TLS_MIN_VERSION": "1.3"}
    tls = resolve({"tls.verify": True}, environment, str(file)).settings.tls
    assert tls == BrokerTlsSettings(
        cert_file="b.pem", key_file="a.key", ca_file="a.ca", verify=True, min_version="1.3"
    )


@pytest.mark.parametrize(
    ("tls", "is_on", "is_verifying"),
    [
        (BrokerTlsSettings(enabled=True), True, False),
        (BrokerTlsSettings(cert_file="c.pem"), True, False),
        (BrokerTlsSettings(cert_file="c.pem", verify=True), True, True),
        (BrokerTlsSettings(cert_file="c.pem", verify_and_map=True), True, True),
        (BrokerTlsSettings(ca_file="ca.pem"), False, False),
    ],
)
def test_given_settings_when_asked_then_they_say_whether_tls_is_on(
    tls: BrokerTlsSettings, is_on: bool, is_verifying: bool
) -> None:
    assert (tls.is_on, tls.is_verifying) == (is_on, is_verifying)


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (
            {**CERTIFICATE, "tls.min_version": "1.33"},
            '--tls_min_version: "1.33" is not one of 1.2, 1.3; did you mean "1.3"?',
        ),
        (
            {**CERTIFICATE, "tls.timeout": "1h"},
            "--tls_timeout: 1h is above 5m; give 10ms to 5m",
        ),
    ],
)
def test_given_wrong_settings_when_resolved_then_it_says_what_to_give(
    flags: dict[str, object], why: str
) -> None:
    with pytest.raises(WrongSettings) as caught:
        resolve(flags, {})
    assert caught.value.problems == [why]
