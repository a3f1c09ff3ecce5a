"""`seriatim spark`: runs the jobs of `pyspark_seriatim`, each with its own command line.

The arguments are passed on unparsed, so that no other command loads anything of Spark.
"""

import sys
from importlib import import_module

import typer

JOBS = {
    "archive": "Write the stream to Parquet, Delta or Iceberg, each message once.",
    "audit": "Check that a range, or an archive, has no gaps or duplicates and equals the journal.",
    "replay": "Publish an archive again, in order, each message once.",
    "stats": "Messages, bytes, sizes and rates by subject and time.",
    "cardinal": "Assemble Cardinal Streams into tables of blocks, updates and reorgs.",
    "bundle": "Zip what executors need of Seriatim, for spark-submit's --py-files.",
}
ANYTHING = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

app = typer.Typer(
    name="spark",
    help="""Archive, audit, replay and analyse the stream with Spark.

    [bold]Examples[/bold]

    [cyan]seriatim spark archive /data/archive --once[/cyan]    the journal, as Parquet
    [cyan]seriatim spark audit --archive /data/archive[/cyan]   status 1 if a message is missing
    [cyan]seriatim spark stats --server HOST:4222[/cyan]        messages and bytes by subject
    """,
    short_help="Archive, audit, replay and analyse the stream with Spark.",
    epilog="Needs [bold]pip install '.\\[spark]'[/bold] in a checkout, and Java 17 or 21.",
    rich_markup_mode="rich",
)


def _add(name: str, text: str) -> None:
    @app.command(name, help=text, context_settings=ANYTHING, add_help_option=False)
    def command(context: typer.Context) -> int:
        command_line = import_module("pyspark_seriatim.jobs.running.command")
        try:
            job = command_line.job_of(name)
        except ModuleNotFoundError as error:
            print(f"seriatim: {command_line.words(error) or error}", file=sys.stderr)
            return 2
        status: int = command_line.run(job, context.args, f"seriatim spark {name}")
        return status


for _name, _text in JOBS.items():
    _add(_name, _text)
