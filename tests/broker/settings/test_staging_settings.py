"""The settings of staging: in the file, as flags, in the environment."""

from pathlib import Path

import pytest

from broker.settings.errors import WrongSettings
from broker.settings.resolve import resolve
from broker.settings.staging_settings import StagingSettings


def test_given_a_file_a_variable_and_a_flag_then_the_stronger_one_counts(tmp_path: Path) -> None:
    file = tmp_path / "seriatim.toml"
    file.write_text('[staging]\nmax_bytes = "1GiB"\nmax_stages = 7\nexpiry = "5m"\n')
    environment = {"SERIATIM_STAGING_MAX_STAGES": "8", "SERIATIM_STAGING_MAX_APPLICATIONS": "9"}
    settings = resolve({"staging.expiry": "30s"}, environment, str(file)).settings
    assert settings.staging == StagingSettings(
        max_bytes=1 << 30, max_stages=8, expiry=30.0, max_applications=9
    )


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("staging.max_bytes", "-1"),
        ("staging.max_stages", "0"),
        ("staging.expiry", "0"),
        ("staging.expiry", "31 days"),
        ("staging.max_applications", "0"),
    ],
)
def test_given_a_value_out_of_bounds_then_it_is_named(path: str, text: str) -> None:
    with pytest.raises(WrongSettings, match=path.replace("staging.", "--staging_")):
        resolve({path: text}, {})
