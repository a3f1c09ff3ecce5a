"""`seriatim spark audit`: checks that a range of the journal, or an archive, is complete.

Exit status 0: clean; 1: problems were found; 2: it could not be checked.
"""

import json
from typing import Annotated

import typer

from pyspark_seriatim.jobs.errors import WrongArguments
from pyspark_seriatim.jobs.running.command import DONE, FOUND, Conf, Master, job, settings
from pyspark_seriatim.jobs.running.job_arguments import (
    ANYBODY,
    Access,
    OneArchive,
    OneServer,
    chosen_server,
    job_access,
)
from seriatim.settings.shared_options import First, Json, Last, with_options

SHOWN = 10


Filter = Annotated[
    str | None,
    typer.Option(
        "--subject",
        metavar="SUBJECT",
        help="Only these subjects, with wildcards. By default those of the archive.",
        show_default=False,
    ),
]
Limit = Annotated[
    int,
    typer.Option(
        "--limit", min=1, max=1000, metavar="N", help="How many examples of each problem to show."
    ),
]
Payloads = Annotated[
    bool,
    typer.Option(
        "--payloads/--no-payloads",
        help="Read every page of an archive to verify its checksum; or only the numbers.",
    ),
]


@job
@with_options(access=job_access)
def audit(
    server: OneServer = None,
    archive: OneArchive = None,
    first: First = None,
    last: Last = None,
    subject: Filter = None,
    limit: Limit = SHOWN,
    payloads: Payloads = True,
    as_json: Json = False,
    master: Master = None,
    conf: Conf = None,
    *,
    access: Access = ANYBODY,
) -> int:
    """Check that a range of the journal, or an archive, has no gaps or duplicates and is in order.

    Given both, also check that the archive has the same content as the journal. The exit status is
    1 if there are problems, 2 if it could not be checked.

    [bold]Examples[/bold]

    [cyan]seriatim spark audit --server nats://127.0.0.1:4222[/cyan]
    [cyan]seriatim spark audit --archive /data/archive[/cyan]
    [cyan]seriatim spark audit --archive /data/archive --server HOST:4222 --json | jq .clean[/cyan]
    """
    server = chosen_server(server, archive)
    if server is None and archive is None:
        raise WrongArguments("nothing to audit: give --server, --archive, or both")
    from pyspark_seriatim.jobs.audit.audit_report import as_json as in_json
    from pyspark_seriatim.jobs.audit.audit_report import findings_of, print_report
    from pyspark_seriatim.jobs.audit.auditing import Auditor, look_at
    from pyspark_seriatim.jobs.running.spark_session import spark_session
    from pyspark_seriatim.jobs.running.watch import terminal

    sides = look_at(server, archive, access)
    sides.scope(first, last, subject)  # fail for an invalid range before Spark starts
    spark = spark_session("seriatim audit", master, settings(conf))
    verdict = Auditor(spark, sides, limit, payloads).examine(first, last, subject)
    findings = findings_of(verdict)
    if as_json:
        print(json.dumps(in_json(verdict, findings), indent=2))
    else:
        print_report(verdict, findings, terminal())
    return FOUND if findings else DONE
