"""Doctor's findings about control groups: files as kernels write them, and groups of this one."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.settings.resolve import resolve
from seriatim.cli.check.check_results import CheckResult
from seriatim.cli.doctor import container_limits
from seriatim.cli.doctor.container_limits import ControlGroups
from seriatim.cli.doctor.examination import Patient
from tests.seriatim.cli.doctor.doctor_runs import doctor

MIB = 1 << 20
PID = 7


class Kernel:
    """Files of /proc and /sys/fs/cgroup as a kernel has them for one process."""

    def __init__(self, folder: Path, groups: str, mounts: dict[str, str]) -> None:
        self.proc, self.groups = folder / "proc", folder / "cgroup"
        own = self.proc / str(PID)
        own.mkdir(parents=True)
        (own / "cgroup").write_text(groups)
        lines = [
            f"{30 + at} 25 0:{26 + at} {root} {self.groups}{mount} rw,nosuid - {kind}\n"
            for at, (mount, (root, kind)) in enumerate(
                (mount, text.split(" ", 1)) for mount, text in mounts.items()
            )
        ]
        lines.append("22 25 0:20 / /proc rw,nosuid shared:5 - proc proc rw\n")
        (own / "mountinfo").write_text("".join(lines))

    def write(self, path: str, text: str) -> None:
        file = self.groups / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")

    def found(self, what: str, **flags: str) -> CheckResult | None:
        patient = Patient(resolve({"journal.enabled": False, **flags}, {}).settings, PID, False)
        kept = list(getattr(container_limits, what)(patient, ControlGroups(PID, self.proc)))
        return kept[0] if kept else None


@pytest.fixture
def v2(tmp_path: Path) -> Kernel:
    """A service of systemd: its limits are files of its group, and of those above it."""
    kernel = Kernel(tmp_path, "0::/system.slice/broker.service\n", {"": "/ cgroup2 cgroup2 rw"})
    kernel.write("system.slice/broker.service/memory.max", "max")
    kernel.write("system.slice/broker.service/cpu.max", "max 100000")
    return kernel


@pytest.fixture
def v1(tmp_path: Path) -> Kernel:
    """A container: its own group is what it sees at the top, and v1 has one place for each."""
    groups = "".join(f"{at}:{one}:/docker/3f1c\n" for at, one in enumerate(V1_CONTROLLERS))
    mounts = {f"/{one}": f"/docker/3f1c cgroup cgroup rw,{one}" for one in V1_CONTROLLERS}
    kernel = Kernel(tmp_path, groups, mounts)
    kernel.write("memory/memory.limit_in_bytes", "9223372036854771712")
    kernel.write("cpu,cpuacct/cpu.cfs_quota_us", "-1")
    kernel.write("cpu,cpuacct/cpu.cfs_period_us", "100000")
    return kernel


V1_CONTROLLERS = ("pids", "cpu,cpuacct", "memory")


@pytest.mark.parametrize("kernel", ["v1", "v2"])
def test_given_groups_without_limits_then_all_is_well(
    kernel: str, request: pytest.FixtureRequest
) -> None:
    made: Kernel = request.getfixturevalue(kernel)
    for what in ("memory", "processor"):
        found = made.found(what)
        assert found is not None
        assert (found.level, found.text) == ("ok", "no limit by a control group")
    assert made.found("processes") is None


@pytest.mark.parametrize(
    ("kernel", "file"),
    [
        ("v1", "memory/memory.limit_in_bytes"),
        ("v2", "system.slice/broker.service/memory.max"),
        ("v2", "system.slice/memory.max"),
    ],
)
def test_given_a_limit_of_memory_then_what_settings_need_is_compared(
    kernel: str, file: str, request: pytest.FixtureRequest
) -> None:
    made: Kernel = request.getfixturevalue(kernel)
    levels = []
    for limit in (64 * MIB, 256 * MIB, 1024 * MIB):
        made.write(file, str(limit))
        found = made.found("memory")
        assert found is not None
        assert found.text.startswith(f"the control group may use {limit // MIB} MiB")
        levels.append(found.level)
    assert levels == ["warning", "hint", "ok"]
    made.write(file, str(256 * MIB))
    found = made.found("memory")
    assert found is not None
    total = found.do.split()[1].rstrip(",")
    lower = made.found("memory", **{"limits.max_pending_total": total})
    assert lower is not None
    assert lower.level == "ok"


@pytest.mark.parametrize(
    ("kernel", "file", "half", "two"),
    [
        ("v1", "cpu,cpuacct/cpu.cfs_quota_us", "50000", "200000"),
        ("v2", "system.slice/broker.service/cpu.max", "50000 100000", "200000 100000"),
    ],
)
def test_given_less_than_a_processor_then_it_warns(
    kernel: str, file: str, half: str, two: str, request: pytest.FixtureRequest
) -> None:
    made: Kernel = request.getfixturevalue(kernel)
    for text, level, share in ((half, "warning", "0.5"), (two, "ok", "2")):
        made.write(file, text)
        found = made.found("processor")
        assert found is not None
        assert (found.level, found.text) == (
            level,
            f"the control group may use {share} processors",
        )


@pytest.mark.parametrize(("kernel", "folder"), [("v1", "pids"), ("v2", "system.slice")])
def test_given_few_processes_left_then_threads_do_not_fit(
    kernel: str, folder: str, request: pytest.FixtureRequest
) -> None:
    made: Kernel = request.getfixturevalue(kernel)
    made.write(f"{folder}/pids.max", "100")
    made.write(f"{folder}/pids.current", "95")
    found = made.found("processes")
    assert found is not None
    assert (found.level, found.text) == (
        "warning",
        "the control group has room for 5 more of 100 processes",
    )
    made.write(f"{folder}/pids.current", "5")
    assert made.found("processes") is None


@contextmanager
def real_group(controller: str, **files: str) -> Iterator[Path]:
    """A group of v1's controller of this kernel, for a child alone."""
    place = Path("/sys/fs/cgroup") / controller
    own = [line for line in Path("/proc/self/cgroup").read_text().splitlines() if line]
    if f"{controller}:/" not in [line.partition(":")[2] for line in own]:
        pytest.skip(f"this machine has no group at the top of v1's {controller}")
    group = place / f"seriatim-doctor-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no group can be made: {error}")
    try:
        for name, text in files.items():
            (group / name.replace("__", ".")).write_text(text)
        yield group
    finally:
        group.rmdir()


def test_given_a_real_group_with_little_of_a_processor_then_it_is_read() -> None:
    with real_group("cpu", cpu__cfs_quota_us="90000") as group:
        prefix = ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh"]
        found = doctor(prefix=prefix).only("processor")
    assert (found.level, found.text) == ("warning", "the control group may use 0.9 processors")


@pytest.mark.parametrize("most", ["20", "1"], ids=["a few", "none is left"])
def test_given_a_real_group_with_few_processes_then_it_is_read_and_all_is_examined(
    most: str,
) -> None:
    with real_group("pids", pids__max=most) as group:
        prefix = ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh"]
        examined = doctor(prefix=prefix)
    found = [one for one in examined.about("threads") if one.level == "warning"]
    assert [one.text.split(" more of ")[1] for one in found] == [f"{most} processes"]
    assert examined.only("processor").level == "ok"


def test_given_this_kernel_then_reading_its_groups_raises_nothing() -> None:
    command = ["sh", "-c", "cat /proc/self/cgroup"]
    assert subprocess.run(command, capture_output=True, check=True).stdout
    examined = [one.what for one in doctor().found if not one.text.startswith("could not")]
    assert {"memory", "processor"} <= set(examined)
